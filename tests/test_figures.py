"""Every figure shown to people has a line in docs/figures.md, and every line a test that holds it.

What is shown is collected from what shows it: the metrics, the schemas of the API, the keys and the
labels of the commands, the labels of the pages. A new figure without a line fails here.
"""

import ast
import json
import math
import re
import subprocess
import sys
import time
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import services
from pydantic import BaseModel
from services import Service
from typer.testing import CliRunner
from workspaces import make

import people
from unfit.cli import app, story
from unfit.clock import now
from unfit.service.api import schemas
from unfit.service.auth import COOKIE
from unfit.store.leases import LEASE_SECONDS
from unfit.workspace import Workspace
from unfit.workspace.purge_schedule import PURGE_SECONDS
from unfit.workspace.results import Forgotten

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import run_guide  # noqa: E402

README = ROOT / "README.md"
SCRATCH = ("refit, lbfgs", "refit, newton-cholesky")
DOCUMENT = ROOT / "docs" / "figures.md"
GONE = [f"p{i:04d}" for i in range(3, 12)]
WAITS = "p0020"
PAGES = {
    "/": "Dashboard, overview",
    "/erasures": "Dashboard, erasures",
    "/erasures/1": "Dashboard, an erasure",
    "/audits": "Dashboard, audits",
    "/audits/1": "Dashboard, an audit; the page of an audit",
    "/versions?a=1&b=2": "Dashboard, versions",
    "/method": "Dashboard, method",
}
run = CliRunner().invoke


# --- the document ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    figure: str
    counts: str
    origin: str
    held_by: tuple[str, ...]


def lines() -> dict[str, list[Line]]:
    """The lines of the document under each of its headings."""
    found: dict[str, list[Line]] = {}
    heading = ""
    for text in DOCUMENT.read_text().splitlines():
        if text.startswith("## "):
            heading = text[3:].strip()
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", text)[1:-1]]
        if len(cells) == 4 and cells[0] != "figure" and not set(cells[0]) <= set("-: "):
            named = tuple(re.findall(r"`(tests/[\w/]+\.py::\w+)`", cells[3]))
            found.setdefault(heading, []).append(
                Line(cells[0].replace("`", ""), cells[1], cells[2], named)
            )
    return found


def described(heading: str) -> set[str]:
    return {line.figure for line in lines().get(heading, [])}


def test_every_line_says_what_it_counts_from_where_and_names_tests_that_exist() -> None:
    known: dict[str, set[str]] = {}
    for heading, found in lines().items():
        assert len({line.figure for line in found}) == len(found), f"a figure twice: {heading}"
        for line in found:
            assert line.counts, (heading, line.figure)
            assert line.origin, (heading, line.figure)
            assert line.held_by, f"no test holds {line.figure!r} ({heading})"
            for name in line.held_by:
                path, _, test = name.partition("::")
                if path not in known:
                    tree = ast.walk(ast.parse((ROOT / path).read_text()))
                    known[path] = {n.name for n in tree if isinstance(n, ast.FunctionDef)}
                assert test in known[path], f"{name}, which is to hold {line.figure!r}, is not"


# --- what is shown -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Told"]:
    """A workspace with a history: erasures, held-out people, a retraining, an audit, one waiting
    and one cancelled request."""
    table = people.people(n=1200, subjects=400)
    made = make(tmp_path_factory.mktemp("figures") / "w", None, table=table, audit_window="30d")
    with made.open() as ws:
        for who in GONE:
            ws.forget(subjects=[who])
        ws.retrain()
        ws.forget(subjects=[WAITS[:-1] + "1", "nobody", GONE[0]])
        jobs = ws.store.jobs
        asked = jobs.submit("audit", {}, now())
        report = ws.audit(draws=1, random_state=0)
        jobs.finish(asked, now(), audit_id=report.id, version=report.version)
    with services.serving(made) as service:
        service.post("/v1/erasures", json={"subjects": ["p0030"]}, headers={"Idempotency-Key": "c"})
        last = service.get("/v1/erasures").json()["items"][0]["id"]
        assert service.delete(f"/v1/erasures/{last}").status_code == 200
        service.post("/v1/erasures", json={"subjects": [WAITS]}, headers={"Idempotency-Key": "w"})
        yield Told(service, table)


@dataclass
class Told:
    service: Service
    table: pa.Table

    def page(self, path: str) -> str:
        access = self.service.workspace.store.tokens
        admin = access.by_text(self.service.headers["Authorization"].removeprefix("Bearer "))
        assert admin is not None
        session = access.sign_in(admin, now(), timedelta(hours=1))
        answer = self.service.get(path, headers={"Cookie": f"{COOKIE}={session}"})
        assert answer.status_code == 200, path
        return answer.text

    def metrics(self) -> dict[str, float]:
        text = self.service.get("/metrics").text
        found = (t.rsplit(" ", 1) for t in text.splitlines() if not t.startswith("#"))
        return {name: float(value) for name, value in found}

    def says(self, *arguments: str) -> str:
        result = run(app, [*arguments, "-w", str(self.service.kept.folder)])
        assert result.exit_code in (0, 1, 3), result.output
        return result.stdout


class Labels(HTMLParser):
    """The texts that stand beside figures: cards' names, terms, heads of rows and columns."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._text: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("dt", "th") or (tag == "p" and ("class", "name") in attrs):
            self._text = ""

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("dt", "th", "p") and self._text is not None:
            label = " ".join(self._text.split())
            if label and not label.isdigit() and not re.fullmatch(r"Version \d+", label):
                self.found.add(label)
            self._text = None


def missing(heading: str, shown: set[str]) -> str:
    """What has no line of its own there, nor one that ends in a star."""
    known = described(heading)
    absent = sorted(s for s in shown if not any(fnmatchcase(s, pattern) for pattern in known))
    return f"docs/figures.md has no line under {heading!r} for {absent}" if absent else ""


def test_every_metric_has_a_line(told: Told) -> None:
    text = told.service.get("/metrics").text
    shown = set(re.findall(r"^# HELP (\w+)", text, re.M))
    assert len(shown) >= 12
    assert not missing("Metrics", shown)


def _numeric(annotation: object) -> bool:
    if annotation in (int, float):
        return True
    parts = typing.get_args(annotation)
    is_map = typing.get_origin(annotation) is dict
    return any(_numeric(part) for part in (parts[1:] if is_map else parts))


def test_every_number_of_the_api_has_a_line() -> None:
    shown = set()
    for name, schema in vars(schemas).items():
        if isinstance(schema, type) and issubclass(schema, BaseModel) and name.endswith("Out"):
            shown |= {
                f"{name}.{field}"
                for field, info in schema.model_fields.items()
                if _numeric(info.annotation)
            }
    assert len(shown) >= 25
    assert not missing("API", shown)


def _keys(content: dict[str, Any], within: str = "") -> set[str]:
    """Paths of the numbers of a JSON object."""
    found = set()
    for key, value in content.items():
        path = f"{within}{key}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            found |= _keys(value[0], f"{path}.")
        elif isinstance(value, dict):
            found |= _keys(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.add(path)
    return found


@pytest.mark.parametrize(
    ("heading", "arguments"),
    [
        ("unfit status --json", ["status", "--json"]),
        ("unfit audit --json", ["audit", "--json", "--random-state", "0"]),
        ("unfit forget --json", ["forget", "--json", "--dry-run", "--subject", WAITS]),
        ("unfit train --json, unfit retrain --json", ["retrain", "--json"]),
    ],
)
def test_every_number_of_a_command_has_a_line(
    told: Told, tmp_path: Path, heading: str, arguments: list[str]
) -> None:
    own = told.service.kept.copy(tmp_path / "own")
    if arguments[0] == "audit":
        arguments = [*arguments, "--report", str(tmp_path / "page.html")]
    result = run(app, [*arguments, "-w", str(own.folder)])
    shown = _keys(json.loads(result.stdout.splitlines()[-1]))
    assert shown
    assert not missing(heading, shown)


def test_every_label_of_the_screens_has_a_line(told: Told) -> None:
    status = told.says("status")
    shown = set(re.findall(r"^([a-z][A-Za-z ]*?)\s{2,}\S", status, re.M))
    header = next(line for line in status.splitlines() if line.split()[:2] == ["version", "kind"])
    assert {"model", "remembered", "forgotten", "pending"} <= shown
    assert not missing("unfit status", shown | set(header.split()))
    audit = told.says("audit", "--random-state", "0")
    shown = set(re.findall(r"^([A-Za-z][A-Za-z ,-]*?)\s{2,}\S", audit, re.M))
    assert {"version", "rows", "AccDis", "verdict"} <= shown
    assert not missing("unfit audit", shown)
    attacked = told.says("audit", "--attack", "--splits", "16", "--targets", "1")
    shown = set(re.findall(r"^([A-Za-z][A-Za-z0-9 ,%-]*?)\s{2,}\S", attacked, re.M)) - shown
    assert {"claim", "told apart", "TPR at 1 % FPR", "could have found"} <= shown
    assert not missing("unfit audit --attack, and on the page of an audit", shown)


def test_every_number_of_an_attack_has_a_line(told: Told, tmp_path: Path) -> None:
    asked = ["--attack", "--splits", "16", "--targets", "1", "--json"]
    page = tmp_path / "page.html"
    found = json.loads(told.says("audit", *asked, "--report", str(page)).splitlines()[-1])
    assert not missing("unfit audit --attack --json", _keys(found["attack"], "attack."))
    labels = Labels()
    labels.feed(page.read_text().partition("<h2>Attack</h2>")[2].partition("<h2>")[0])
    assert {"claim", "told apart"} <= labels.found
    assert not missing("unfit audit --attack, and on the page of an audit", labels.found)


@pytest.mark.parametrize(("path", "heading"), PAGES.items())
def test_every_label_of_the_pages_has_a_line(told: Told, path: str, heading: str) -> None:
    labels = Labels()
    labels.feed(told.page(path))
    assert labels.found
    assert not missing(heading, labels.found)


# --- what it must say --------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """Counted from the source table and the records, apart from what is shown."""

    remembered: int
    training_rows: int
    forgotten_rows: int
    forgotten_people: int
    applied: int
    unmatched: int
    version: int
    accuracy: float


@pytest.fixture(scope="module")
def truth(told: Told) -> Truth:
    gone = {*GONE, WAITS[:-1] + "1"}
    who = told.table["person"].to_pylist()
    live = np.array([person not in gone for person in who])
    with Workspace(told.service.kept.folder) as ws:
        with ws.session() as session:
            dataset = session.dataset()
            held_out = np.unique(
                dataset["numbers"][dataset.n_train :][dataset.live[dataset.n_train :]]
            )
        answered = ws.predict(told.table)
        assert answered.table is not None
        predicted = np.array(answered.table["prediction"].to_pylist())
        versions = ws.store.versions.find()
    trained = live.copy()
    trained[held_out] = False
    labels = np.array(told.table["label"].to_pylist())
    return Truth(
        remembered=len({p for p, here in zip(who, live, strict=True) if here}),
        training_rows=int(trained.sum()),
        forgotten_rows=int((~live).sum()),
        forgotten_people=len(gone & set(who)),
        applied=len(set(GONE) & set(who)) + 1,
        unmatched=len(set(GONE) - set(who)),
        version=versions[-1].number,
        accuracy=float((predicted[held_out] == labels[held_out]).mean()),
    )


def test_counts_of_the_command_line_are_those_of_the_table(told: Told, truth: Truth) -> None:
    found = json.loads(told.says("status", "--json"))
    assert found["subjects"] == truth.remembered
    assert found["rows"] == truth.training_rows
    assert found["forgotten_rows"] == truth.forgotten_rows
    assert (found["pending"], found["applied"]) == (1, truth.applied)
    assert found["unmatched"] == truth.unmatched
    assert found["version"] == truth.version
    assert found["accuracy"] == pytest.approx(truth.accuracy)
    screen = " ".join(told.says("status").split())
    assert f"version {truth.version} (updated, fisher)" in screen
    assert f"{truth.training_rows:,} training rows" in screen
    assert f"{truth.remembered:,} subjects" in screen
    assert f"{truth.forgotten_rows:,} rows in {truth.applied} requests" in screen
    assert f"{truth.accuracy:.4f}" in screen


def test_counts_of_the_api_and_the_metrics_are_those_of_the_table(told: Told, truth: Truth) -> None:
    found = told.service.get("/v1/status").json()
    metrics = told.metrics()
    assert found["remembered"] == truth.remembered
    assert found["version"] == metrics["unfit_version"] == truth.version
    assert found["forgotten_rows"] == metrics["unfit_forgotten_rows"] == truth.forgotten_rows
    assert found["forgotten_subjects"] == truth.forgotten_people
    assert metrics["unfit_forgotten_subjects"] == truth.forgotten_people
    assert found["applied"] == metrics["unfit_applied"] == truth.applied
    assert found["pending"] == metrics["unfit_pending"] == 1
    assert found["unmatched"] == metrics["unfit_unmatched"] == truth.unmatched
    assert found["cancelled"] == 1
    assert metrics["unfit_accuracy"] == pytest.approx(truth.accuracy, rel=1e-5)
    last = told.service.get("/v1/decisions").json()["items"][0]
    assert found["estimate"] == last["estimate"]
    assert metrics["unfit_disparity_estimate_percent"] == pytest.approx(last["estimate"], rel=1e-5)
    assert found["threshold"] == metrics["unfit_disparity_threshold_percent"] == 50
    newest = told.service.get("/v1/versions").json()["items"][0]
    assert newest["rows"] == truth.training_rows
    assert newest["subjects"] == truth.remembered
    assert newest["accuracy"] == pytest.approx(truth.accuracy)


def test_counts_of_an_erasure_are_those_of_the_table(told: Told) -> None:
    """The one that named somebody who is here, somebody who was, and nobody."""
    rows = told.table["person"].to_pylist().count(WAITS[:-1] + "1")
    items = told.service.get("/v1/erasures").json()["items"]
    (one,) = [e for e in items if e["state"] == "applied" and e["ids"] == 3]
    assert (one["forgotten"], one["repeated"], one["unknown"], one["rows"]) == (1, 1, 1, rows)
    facts = _facts(told.page(f"/erasures/{one['id']}"))
    assert facts["Ids"] == "3"
    assert facts["Forgotten"].startswith(f"1, with {rows} rows")
    assert facts["Repeated"].startswith("1,")
    assert "1 of 3 ids matched nobody" in _text(told.page(f"/erasures/{one['id']}"))


def test_cards_of_the_overview_are_those_of_the_table(told: Told, truth: Truth) -> None:
    cards = _cards(told.page("/"))
    assert cards["Active version"].startswith(f"{truth.version} FISHER")
    assert cards["People remembered"] == f"{truth.remembered} {truth.training_rows} rows trained on"
    assert cards["People forgotten"].startswith(
        f"{truth.forgotten_people} {truth.forgotten_rows} rows"
    )
    waiting = cards["Pending erasures"]
    assert waiting.startswith(f"1 {truth.applied} in force, {truth.unmatched} matched nobody")
    assert waiting.endswith("1 cancelled")
    assert cards["Test accuracy"].startswith(f"{truth.accuracy:.4f}")
    estimate = told.service.get("/v1/status").json()["estimate"]
    assert cards["Estimated disparity"].startswith(f"{estimate:.2f} %")


def test_times_of_the_pages_are_those_of_the_records(told: Told) -> None:
    """Recomputed from what the API says of each version, without the pages' own code."""
    versions = told.service.get("/v1/versions").json()["items"]
    warm = [v for v in versions if v["cold"] is False]
    updates = [v for v in warm if v["kind"] == "updated"]
    whole, unlearn = _middle(updates, "seconds"), _middle([v["phases"] for v in updates], "unlearn")
    train = _middle([v["phases"] for v in warm if "train" in v["phases"]], "train")
    cards = _cards(told.page("/method"))
    assert cards["Unlearning step"].startswith(_shown(unlearn))
    assert f"last {len(updates)} erasures" in cards["Unlearning step"]
    assert cards["Training step"].startswith(_shown(train))
    said = re.search(r"([\d.,]+) times the unlearning step", cards["Training step"])
    assert said is not None
    assert float(said[1]) == pytest.approx(train / unlearn, rel=0.06)
    assert cards["Whole erasure"].startswith(_shown(whole))
    (again,) = [v for v in warm if v["kind"] == "retrained"]
    parts = ("encode", "train", "evaluate", "rehearse", "write", "commit")
    alone = sum(again["phases"][name] for name in parts)
    assert cards["Whole retraining"].startswith(_shown(alone))
    assert _cards(told.page("/"))["Time per erasure"].startswith(_shown(whole))
    with Workspace(told.service.kept.folder) as ws:
        last = [v for v in ws.store.versions.find() if v.kind == "updated"][-1]
    assert last.times is not None
    assert last.times.rows_read is not None
    text = " ".join(told.page("/method").split())
    assert "are not read again" not in text
    assert f"read {last.times.rows_read:,} rows: the {last.rows:,} that stayed" in text
    for v in versions:
        assert _shown(v["seconds"]) in told.page("/versions")


def test_forget_says_how_long_the_commit_the_purge_and_the_command_took(
    told: Told, tmp_path: Path
) -> None:
    own = told.service.kept.copy(tmp_path / "own")
    command = [sys.executable, "-m", "unfit.cli", "forget", "-w", str(own.folder), "--subject"]
    started = time.perf_counter()
    done = subprocess.run([*command, "p0040"], capture_output=True, text=True, check=True)
    took = time.perf_counter() - started
    said = re.search(
        r"in (.*?), purged in (.*?) more; the whole command took (.*)", done.stdout.splitlines()[0]
    )
    assert said is not None
    commit, purge, whole = (_seconds(each) for each in said.groups())
    with own.open() as ws:
        version = ws.store.versions.find()[-1]
    assert version.times is not None
    assert version.times.purge is not None
    assert commit == pytest.approx(version.seconds, abs=0.06)  # as it is rounded
    assert purge == pytest.approx(version.times.purge, abs=0.06)
    assert commit + purge <= whole + 0.1
    assert whole <= took + 0.1
    answer = run(app, ["forget", "-w", str(own.folder), "--json", "--subject", "p0041"])
    found = json.loads(answer.stdout)
    with own.open() as ws:
        version = ws.store.versions.find()[-1]
    assert version.times is not None
    assert (found["seconds"], found["purge_seconds"]) == (version.seconds, version.times.purge)
    assert found["command_seconds"] >= found["seconds"] + found["purge_seconds"]


@pytest.mark.slow
def test_the_demo_says_what_its_requests_answered(tmp_path: Path) -> None:
    answers = [
        story.Timed(_answer(1, 0.010, 0.1, "update", 0.3), 0.12),
        story.Timed(_answer(2, 0.030, 0.3, "update", 0.5), 0.35),
        story.Timed(_answer(3, 0.020, 0.2, "update", 0.1), 0.25),
        story.Timed(_answer(4, 2.0, 0.4, "retrain", 2.5), 2.5),
        story.Timed(_answer(5, 3.0, 0.5, "retrain", 2.6), 3.6),
    ]
    kept = make(tmp_path / "w", None)
    with kept.open() as ws:
        wave = story._wave("random", answers, ws)
        version = ws.store.versions.active()
    assert version is not None
    assert (wave.requests, wave.people, wave.rows) == (5, 15, 30)
    assert wave.seconds == 0.25  # of those answered by unlearning, the purge included
    assert (wave.retraining, wave.retrainings) == (2.5, 2)  # of the first, in the same way
    assert wave.faster == pytest.approx(10)
    assert (wave.estimate, wave.accuracy) == (2.6, version.accuracy)


def _answer(n: int, seconds: float, purge: float, action: str, estimate: float) -> Forgotten:
    return Forgotten(
        key=f"k{n}",
        rows=2 * n,
        subjects=n,
        repeated=(),
        unknown=(),
        version=n,
        action=action,
        reason="",
        estimate=estimate,
        threshold=2.0,
        seconds=seconds,
        purged=True,
        purge_seconds=purge,
    )


# --- documents ---------------------------------------------------------------------------------


def _cells(text: str) -> list[list[str]]:
    rows = (re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines())
    return [[cell.strip() for cell in row] for row in rows if row]


def test_documents_quote_the_benchmarks_they_name() -> None:
    readme, measured = README.read_text(), (ROOT / "docs" / "benchmarks.md").read_text()
    took = {(r[0], r[1], r[2], r[4]): (r[3], r[5]) for r in _cells(measured) if len(r) == 7}
    streams = [r for r in _cells(measured) if len(r) == 7 and r[0] == "stream"]
    quoted = 0
    for row in _cells(readme):
        found = re.fullmatch(r"(1 row|0\.1 %|1 %) of ([\w-]+)", row[0])
        if found is None:
            continue
        quoted += 1
        data = found[2].lower()
        if len(row) == 6:
            what = ("forgetting", data, f"fisher, {found[1]}")
            scratch = next(v for k, v in took.items() if k[:3] == what and k[3] in SCRATCH)
            warm, ahead = took[(*what, "refit, warm")], took[(*what, "its preparation")]
            assert row[2:] == [scratch[0], scratch[1], warm[1], ahead[1]]
        else:
            (line,) = [r for r in streams if r[1:3] == [data, f"10 requests of {found[1]}"]]
            assert row[1:] == [line[3], line[5], line[6]]
    assert quoted == 15
    memory = next(r for r in _cells(measured) if r[0].startswith("`unfit train`"))[2]
    assert f"in {math.ceil(10 * float(memory.split()[0])) / 10} GB of memory" in readme
    operations = (ROOT / "docs" / "operations.md").read_text()
    assert f"stand still for {LEASE_SECONDS:g} seconds" in " ".join(operations.split())
    assert PURGE_SECONDS == 1.0
    assert "purged once a second" in " ".join(operations.split())


def test_the_exact_method_and_the_retraining_stand_in_the_guide() -> None:
    """Ratios are those of the figures printed beside them, and the README quotes the guide."""
    guide, readme = (ROOT / "docs" / "guide.md").read_text(), README.read_text()
    erasure, unlearn = _printed(
        guide, r"an erasure: median ([\d.]+) ms", r"unlearning ([\d.]+) ms, read"
    )
    whole, train = _printed(guide, r"a retraining: (\d+) ms", r"  train (\d+) ms")
    wholes, steps = _printed(
        guide,
        r"a whole retraining takes ([\d.]+) times as long",
        r"erasure, training ([\d.]+) times as long",
    )
    assert wholes == pytest.approx(whole / erasure, rel=0.03)
    assert steps == pytest.approx(train / unlearn, rel=0.03)
    exact, exact_step = _printed(
        guide, r"^retrain: ([\d.]+) ms", r"^retrain: .*unlearning ([\d.]+) ms$"
    )
    fisher, fisher_step = _printed(
        guide, r"^fisher: ([\d.]+) ms", r"^fisher: .*unlearning ([\d.]+) ms$"
    )
    wholes, steps = _printed(
        guide,
        r"retrain takes ([\d.]+) times as long as fisher",
        r"its unlearning alone ([\d.]+) times as long",
    )
    assert wholes == pytest.approx(exact / fisher, rel=0.03)
    assert steps == pytest.approx(exact_step / fisher_step, rel=0.03)
    assert run_guide.quoted(readme, guide) == readme


def _printed(text: str, *patterns: str) -> list[float]:
    found = []
    for pattern in patterns:
        match = re.search(pattern, text, re.M)
        assert match is not None, pattern
        found.append(float(match[1]))
    return found


def _seconds(shown: str) -> float:
    number, unit = shown.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


def _middle(of: list[dict[str, Any]], name: str) -> float:
    return float(np.median([one[name] for one in of]))


def _shown(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms" if ms < 10_000 else f"{seconds:,.1f} s"


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def _cards(html: str) -> dict[str, str]:
    """Each card's name, and the value and the line under it."""
    found = re.findall(r'<p class="name">(.*?)</p>(.*?)</section>', html, re.S)
    return {_text(name): _text(rest) for name, rest in found}


def _facts(html: str) -> dict[str, str]:
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", html, re.S)
    return {_text(name): _text(value) for name, value in found}
