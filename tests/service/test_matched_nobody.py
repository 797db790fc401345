"""A request that matched nobody is told so, with near spellings, whichever way it came."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import services
from services import Service, serving, until, working
from typer.testing import CliRunner
from workspaces import Kept, make

import people
from tiers import mostly_slow
from unfit.cli import app
from unfit.errors import MatchedNobody

# whom the workspace has, and how they are asked for; True: that is them
SPELLINGS: list[tuple[str, Any, bool]] = [
    ("José Núñez", "Jose\u0301 Nu\u0301n\u0303ez", False),  # decomposed
    ("C-1042", "c-1042", False),
    ("McDonald", "MCDONALD", False),
    ("Zoë Lund", " Zoë Lund\t", True),
    ("Ann Lee", "Ann  Lee", False),
    ("Bo Ek", "Bo\u00a0Ek", False),
    ("0042", "42", False),
    ("7", "007", False),
    ("8", "8.0", False),
    ("11", 11, True),
    ("E-77", "E-\u200b77", False),  # zero width
    ("F-88", "F\u201188", False),  # another hyphen
    ("12", "\uff11\uff12", False),  # full width
    ("char", "char        ", True),  # as PostgreSQL pads
]
AWKWARD = ["a, b", 'say "hi"', " [1]", "-dash"]
RUN = CliRunner().invoke


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Three rows of each of them, and others."""
    table = people.people(n=240, subjects=60)
    who = [stored for stored, _, _ in SPELLINGS] + AWKWARD + ["two\nlines"]
    names = [*(who * 3), *table["person"].to_pylist()[3 * len(who) :]]
    table = table.set_column(0, "person", pa.array(names))
    return make(tmp_path_factory.mktemp("spelt") / "w", None, table=table)


Ask = Callable[[Any], tuple[str, list[str]]]


def by_python(kept: Kept) -> Iterator[Ask]:
    with kept.open() as ws:

        def ask(id: Any) -> tuple[str, list[str]]:
            made = ws.forget(subjects=[id])
            return made.matched, [text for each in made.near.values() for text in each]

        yield ask


def by_command(*options: str) -> Callable[[Kept], Iterator[Ask]]:
    def way(kept: Kept) -> Iterator[Ask]:
        def ask(id: Any) -> tuple[str, list[str]]:
            arguments, given = [o for o in options if o != "--dry-run"], None
            if options == ("--subject",):
                arguments = [f"--subject={id}"]
            elif "--file" in options:
                (kept.folder.parent / "ids.txt").write_text(f"{id}\n")
                arguments.append(str(kept.folder.parent / "ids.txt"))
            else:
                given = f"{id}\r\n"
            if "--dry-run" in options:
                arguments.append("--dry-run")
            said = RUN(app, ["forget", "-w", str(kept.folder), "--json", *arguments], input=given)
            assert said.exit_code == 0, said.output
            made = json.loads(said.stdout)
            return made["matched"], [text for each in made["near"].values() for text in each]

        yield ask

    return way


def by_api(kept: Kept) -> Iterator[Ask]:
    with serving(kept) as service, working(kept.folder):

        def ask(id: Any) -> tuple[str, list[str]]:
            filed = service.post("/v1/erasures", json={"subjects": [id]}).json()
            near = [text for one in filed["near"] for text in one["spellings"]]
            looked = service.post("/v1/subjects/lookup", json={"subject": id}).json()
            assert looked["near"] == near
            done = settled(service, filed["id"])
            assert done["in_force"] == (done["matched"] != "none")
            return done["matched"], near

        yield ask


def by_form(kept: Kept) -> Iterator[Ask]:
    with serving(kept) as service, working(kept.folder):
        page = signed_in(service)

        def ask(id: Any) -> tuple[str, list[str]]:
            answer = page("/erasures", ids=f"{id}\r\n", kind="subject")
            newest = service.get("/v1/erasures?limit=1").json()["items"][0]
            near = [plain(text) for text in re.findall(r"<code>([^<]*)</code>\? ", answer.text)]
            done = settled(service, newest["id"])
            shown = page(f"/erasures/{newest['id']}").text
            assert ("tag unmatched" in shown) == (done["matched"] == "none")
            return done["matched"], near

        yield ask


def plain(text: str) -> str:
    import html

    return html.unescape(text)


def settled(service: Service, id: int) -> dict[str, Any]:
    def done() -> Any:
        found = service.get(f"/v1/erasures/{id}").json()
        return found if found["state"] != "pending" else None

    return until(done, "the erasure")


def signed_in(service: Service) -> Callable[..., Any]:
    """Pages as a browser asks for them: GET without fields, POST with."""
    text = services.token(service.kept.folder, "erase", "operate")
    headers = {"sec-fetch-site": "same-origin", "Authorization": ""}
    service.post("/sign-in", data={"token": text}, headers=headers)
    start = service.get("/erasures", headers=headers).text
    csrf = re.search(r'name="csrf" value="(\w+)"', start)
    assert csrf is not None

    def page(path: str, **fields: str) -> Any:
        if not fields:
            return service.get(path, headers=headers)
        return service.post(path, data=fields | {"csrf": csrf[1]}, headers=headers)

    return page


WAYS: dict[str, Callable[[Kept], Iterator[Ask]]] = {
    "python": by_python,
    "command": by_command("--subject"),
    "file": by_command("--file", "--dry-run"),  # the way in is all that differs
    "stdin": by_command("--stdin", "--dry-run"),
    "api": by_api,
    "form": by_form,
}


# The command line's other ways in differ in how ids are read, and the form in how it is shown.
@pytest.fixture(scope="module", params=mostly_slow(WAYS, ["python", "command", "api"]))
def ask(
    request: pytest.FixtureRequest, trained: Kept, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ask]:
    kept = trained.copy(tmp_path_factory.mktemp(request.param) / "w")
    yield from WAYS[request.param](kept)


@pytest.mark.parametrize(
    ("stored", "asked", "theirs"), SPELLINGS, ids=[stored for stored, _, _ in SPELLINGS]
)
def test_a_spelling_matches_or_is_answered_with_the_right_one(
    ask: Ask, stored: str, asked: Any, theirs: bool
) -> None:
    assert ask(asked) == (("all", []) if theirs else ("none", [stored]))


@pytest.mark.parametrize("id", AWKWARD)
def test_ids_with_commas_blanks_and_quotes_are_erased_every_way(ask: Ask, id: str) -> None:
    assert ask(id) == ("all", [])


def test_ids_with_line_breaks_are_listed_as_json(trained: Kept, tmp_path: Path) -> None:
    kept = trained.copy(tmp_path / "w")
    (tmp_path / "ids.json").write_text(json.dumps(["two\nlines"]))
    for options in (["--file", str(tmp_path / "ids.json")], ["--stdin", "--input-format", "json"]):
        arguments = ["forget", "-w", str(kept.folder), "--dry-run", "--json", *options]
        said = RUN(app, arguments, input=json.dumps(["two\nlines"]))
        assert json.loads(said.stdout)["rows"] == 3, said.output
    with serving(kept) as service:
        page = signed_in(service)
        answer = page("/erasures", ids=json.dumps(["two\nlines"]), written="json", kind="subject")
        assert answer.status_code == 303
        wrong = page("/erasures", ids="{", written="json", kind="subject")
        assert wrong.status_code == 422
    with kept.open() as ws:
        ws.apply()
        assert [r.matched for r in ws.store.requests.find()] == ["all"]


def test_single_rows_with_commas_in_their_ids(tmp_path: Path) -> None:
    table = people.people(n=60)
    names = ["r,1", *table["record"].to_pylist()[1:]]
    kept = make(tmp_path / "w", None, table=table.set_column(1, "record", pa.array(names)))
    forget = ["forget", "-w", str(kept.folder), "--json"]
    assert json.loads(RUN(app, [*forget, "--row", "r,1"]).stdout)["rows"] == 1
    made = json.loads(RUN(app, [*forget, "--rows", "r00002, r00003", "--rows", "R00004"]).stdout)
    assert (made["rows"], made["matched"], made["near"]) == (2, "some", {"R00004": ["r00004"]})


def test_the_command_warns_and_strict_has_an_exit_code_of_its_own(
    trained: Kept, tmp_path: Path
) -> None:
    kept = trained.copy(tmp_path / "w")

    def forget(*options: str) -> Any:
        return RUN(app, ["forget", "-w", str(kept.folder), *options])

    assert json.loads(forget("--subject", "nobody", "--json").stdout)["purged"] is None
    none = forget("--subject", "MCDONALD", "--subject", "nobody")
    assert none.exit_code == 0
    assert "nobody was forgotten" in none.stdout
    assert "no id matched anybody: MCDONALD, nobody" in none.stderr
    assert "'MCDONALD': did you mean 'McDonald'?" in none.stderr
    some = forget("--subject", "C-1042", "--subject", "nobody")
    assert "forgot 3 rows of 1 id" in some.stdout
    assert "1 of 2 ids matched nobody: nobody" in some.stderr
    strict = forget("--subject", "MCDONALD", "--strict")
    assert strict.exit_code == MatchedNobody.exit_code == 4
    assert "did you mean 'McDonald'?" in strict.stderr
    assert forget("--subject", "C-1042", "--strict").exit_code == 2  # forgotten already
    assert forget("--subject", "McDonald", "--strict").exit_code == 0
    shown = RUN(app, ["status", "-w", str(kept.folder)]).output
    assert "matched nobody" in shown
    with kept.open() as ws:
        assert [r.state for r in ws.store.requests.find()] == ["unmatched"] * 2 + ["applied"] * 2
        assert [r.purged for r in ws.store.requests.find()] == [None, None, True, True]
        assert ws.status().as_dict()["unmatched"] == 2


def test_matching_nobody_is_a_state_in_every_answer_and_on_every_page(
    trained: Kept, tmp_path: Path
) -> None:
    kept = trained.copy(tmp_path / "w")
    with serving(kept) as service, working(kept.folder):
        page = signed_in(service)
        assert "matched nobody" not in page("/").text
        ids = {}
        for name, who in {
            "all": ["E-77"],
            "none": ["nobody", "Nobody"],
            "some": ["7", "nobody"],
            "earlier": ["E-77"],
        }.items():
            filed = service.post("/v1/erasures", json={"subjects": who}).json()
            assert (filed["matched"], filed["in_force"]) == (None, False)
            done = settled(service, filed["id"])
            assert done["matched"] == name
            assert done["in_force"] == (name != "none")
            assert done["state"] == ("unmatched" if name == "none" else "applied")
            assert (done["version"] is None) == (name == "none")
            assert (done["purged"] is None) == (name == "none")
            ids[name] = filed["id"]
        nobody = ids["none"]
        told = service.get(f"/v1/erasures/{nobody}/events").text
        assert json.loads(told.split("data: ")[1])["state"] == "unmatched"
        assert "id: unmatched" in told
        listed = service.get("/v1/erasures?state=unmatched").json()["items"]
        assert [e["id"] for e in listed] == [nobody]
        applied = service.get("/v1/erasures?state=applied").json()["items"]
        assert nobody not in [e["id"] for e in applied]
        status = service.get("/v1/status").json()
        assert (status["applied"], status["unmatched"]) == (3, 1)
        assert "\nunfit_unmatched 1.0\n" in service.get("/metrics").text
        overview = page("/").text
        assert 'class="banner warn"' in overview
        assert f"Erasure {nobody} matched nobody" in overview
        assert "everybody who asked is forgotten" not in overview
        every = page("/erasures").text
        for tag in (
            '"tag unmatched">matched nobody',
            '"tag applied">in force',
            '"tag partly">in force, 1 matched nobody',
            '"tag earlier">forgotten before',
        ):
            assert tag in every
        one = page(f"/erasures/{nobody}").text
        assert '"tag applied"' not in one
        assert "In force" not in one
        assert '<li class="warn"><span>Matched nobody' in one


def test_ids_that_were_kept_with_blanks_around_them_are_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier release kept them, of a CHAR column."""
    from unfit.data import ids

    table = people.people(n=120, subjects=40)
    padded = pa.array([f"{name}   " for name in table["person"].to_pylist()])
    with monkeypatch.context() as patch:
        patch.setattr(ids, "trimmed", lambda distinct, *_: distinct)
        kept = make(tmp_path / "w", None, table=table.set_column(0, "person", padded), copied=False)
    with kept.open() as ws:
        asked = ws.forget(subjects=["p0003"])
        assert (asked.matched, dict(asked.near)) == ("none", {"p0003": ["p0003   "]})
        assert ws.forget(subjects=["p0003   "]).matched == "all"
        assert ws.forget(subjects=["p0003   "]).matched == "earlier"
        ws.retrain()
        assert ws.forget(subjects=["p0004   "]).matched == "all"


def test_somebody_forgotten_before_is_known_in_another_spelling(
    trained: Kept, tmp_path: Path
) -> None:
    kept = trained.copy(tmp_path / "w")
    with kept.open() as ws:
        assert ws.forget(subjects=["José Núñez", "7", "C-1042"]).matched == "all"
        asked = ["JOSE\u0301 NU\u0301N\u0303EZ", "007", "c-\u200b1042", "nobody"]
        made = ws.forget(subjects=asked)
        assert (made.matched, dict(made.near)) == ("none", {})
        named = dict(zip(asked, ["José Núñez", "7", "C-1042"], strict=False))
        assert dict(made.forgotten_as) == named
    said = RUN(app, ["forget", "-w", str(kept.folder), "--subject", "007"])
    assert "'007': '7' was forgotten before" in said.stderr
    with serving(kept) as service:
        filed = service.post("/v1/erasures", json={"subjects": ["007"]}).json()
        assert filed["near"] == [
            {"kind": "subject", "asked": "007", "spellings": [], "forgotten_as": "7"}
        ]
        shown = signed_in(service)("/erasures", ids="007", kind="subject").text
        assert "<code>7</code> has already been forgotten" in shown


def test_near_spellings_are_for_who_may_erase(trained: Kept, tmp_path: Path) -> None:
    kept = trained.copy(tmp_path / "w")
    with serving(kept) as service:
        filed = service.post("/v1/erasures", json={"subjects": ["MCDONALD"]}).json()
        assert filed["near"] == [
            {
                "kind": "subject",
                "asked": "MCDONALD",
                "spellings": ["McDonald"],
                "forgotten_as": None,
            }
        ]
        for role in ("audit", "operate", "erase"):
            headers = services.bearer(services.token(kept.folder, role))
            for path in (f"/v1/erasures/{filed['id']}", f"/v1/erasures/{filed['id']}/events"):
                if path.endswith("events"):
                    service.delete(f"/v1/erasures/{filed['id']}")
                found = service.get(path, headers=headers).text
                assert "McDonald" not in found
                assert "MCDONALD" not in found
        for role in ("audit", "operate", "predict"):
            headers = services.bearer(services.token(kept.folder, role))
            body = {"subject": "MCDONALD"}
            assert (
                service.post("/v1/subjects/lookup", json=body, headers=headers).status_code == 403
            )


def test_a_key_that_is_there_twice_is_refused(trained: Kept, tmp_path: Path) -> None:
    kept = trained.copy(tmp_path / "w")
    bodies = {
        "/v1/erasures": b'{"subjects": ["7"], "subjects": ["8"]}',
        "/v1/subjects/lookup": b'{"subject": "7", "subject": "8"}',
        "/v1/audits": b'{"draws": 1, "draws": 2}',
        "/v1/predictions": b'{"rows": [{"age": 1, "age": 90, "city": "a:b"}]}',
    }
    with serving(kept) as service:
        for path, body in bodies.items():
            headers = {"Content-Type": "application/json"}
            answer = service.post(path, content=body, headers=headers)
            assert answer.status_code == 422, path
            assert answer.headers["content-type"] == "application/problem+json"
            detail = answer.json()["detail"]
            assert re.search(r"The key '(subjects?|draws|age)' appears twice", detail)
        twice = b'{"rows": [{"age": 1}], "rows": [{"age": 2}]}'
        answer = service.post("/v1/predictions", content=twice, headers=headers)
        assert "'rows' appears twice" in answer.json()["detail"]
        fine = {"rows": [services.rows(1)[0] | {"city": "a: b:c"}]}
        assert service.post("/v1/predictions", json=fine).status_code == 200
        assert service.get("/v1/erasures").json()["items"] == []
