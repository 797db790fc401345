"""From nothing to figures, tables, claims and a report; stopped, resumed, refused."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from markupsafe import escape
from studies import extension

from unfit.data.catalog import CATALOG
from unfit.errors import BadInput, Unavailable
from unfit.experiments.deletions import LAWS
from unfit.experiments.extensions import Extensions
from unfit.experiments.figures import FIGURES
from unfit.experiments.plans import plans
from unfit.experiments.runs import Runs
from unfit.experiments.study import Study, alone_in, reproduce
from unfit.experiments.tables import TABLES
from unfit.pages.reproduction import reproduction_page


def test_every_plan_is_a_figure_or_a_table():
    assert set(FIGURES) | set(TABLES) == set(plans())
    assert all(
        plan.kind == ("figure" if plan.name in FIGURES else "table") for plan in plans().values()
    )


def test_everything_is_drawn_and_tabulated(tiny):
    folder, _, outcome = tiny
    out = folder / "out"
    for drawn in outcome.figures:
        for name, path in drawn.pictures.items():
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
            assert (out / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    for table in outcome.tables:
        with (out / "tables" / f"{table.name}.csv").open() as file:
            rows = list(csv.reader(file))
        assert tuple(rows[0]) == table.columns
        assert len(rows) == len(table.rows) + 1
        latex = (out / "tables" / f"{table.name}.tex").read_text()
        assert latex.count(r" \\") == len(table.rows) + 1
        assert (out / "tables" / f"{table.name}.txt").read_text().startswith(table.title)


def test_every_measured_value_is_one(tiny):
    _, _, outcome = tiny
    frame = outcome.findings.frame
    unlearned = frame[frame["kind"] == "unlearn"]
    assert len(unlearned) > 100
    for name in ("acc_test_unlearned", "acc_deleted_unlearned", "acc_deleted_retrained"):
        assert unlearned[name].between(0, 1).all()
    for name in ("acc_err", "acc_dis", "acc_err_init"):
        assert unlearned[name].between(0, 100).all()
    timed = outcome.findings.timings
    assert (timed["seconds_unlearn"] > 0).all()
    assert (timed["cores"] >= 1).all()
    kinds = {"retrain", "train", "unlearn", "timing", "stream", "positions", "beyond"}
    assert set(frame["kind"]) == kinds


def test_a_run_writes_the_streams_step_by_step(tiny):
    folder, _, outcome = tiny
    with (folder / "out" / "tables" / "pipeline.csv").open() as file:
        rows = list(csv.DictReader(file))
    stream = outcome.findings.of("stream")
    assert len(rows) == len(stream) > 0
    assert {row["policy"] for row in rows} == {"always", "never", "1%", "5%", "20%", "refit"}
    assert sum(row["retrained"] == "yes" for row in rows) == stream["retrained"].astype(bool).sum()
    for row, run in zip(rows, stream.itertuples(), strict=True):
        assert float(row["estimate"]) == run.estimate
        assert int(row["deleted"]) == run.deleted


def test_the_report_stands_alone_and_says_each_claim(tiny):
    _, _, outcome = tiny
    page = reproduction_page(outcome)
    assert 'src="http' not in page
    assert 'href="http' not in page
    for claim in outcome.claims:
        assert str(escape(claim.sentence)) in page
    for drawn in outcome.figures:
        assert drawn.plan.title in page or len(drawn.pictures) > 1
    assert len(outcome.claims) >= 10


def test_a_finished_study_is_not_done_again(tiny):
    folder, file, outcome = tiny
    names = tuple(name for name in plans() if name != "appendix-grids")  # drawing these takes long
    study = Study(
        folder / "out",
        names,
        datasets=("tiny",),
        quick=True,
        workers=1,
        extensions=Extensions((str(file),)),
        resume=True,
    )
    again = reproduce(study)
    assert again.done == 0
    assert 0 < again.finished < outcome.finished
    with pytest.raises(Unavailable, match="holds finished runs; continue them with --resume"):
        reproduce(
            Study(
                folder / "out", datasets=("tiny",), quick=True, extensions=Extensions((str(file),))
            )
        )


def noise_again(folder, file):
    """The figure about noise, from the runs that are there."""
    return Study(
        folder / "out",
        ("noise",),
        datasets=("tiny",),
        quick=True,
        extensions=Extensions((str(file),)),
        resume=True,
    )


def test_two_studies_do_not_write_in_one_folder(tiny):
    folder, file, _ = tiny
    study = noise_again(folder, file)
    with alone_in(folder / "out"), pytest.raises(Unavailable, match="another process is working"):
        reproduce(study)


def test_runs_of_another_data_set_of_that_name_are_not_gone_on_from(tiny):
    folder, file, _ = tiny
    study = noise_again(folder, file)
    entry = CATALOG["tiny"]
    CATALOG["tiny"] = replace(entry, training=replace(entry.training, epochs=6))
    try:
        with pytest.raises(Unavailable, match="data set tiny is not what it was for the runs"):
            reproduce(study)
    finally:
        CATALOG["tiny"] = entry
    content = file.read_text()
    file.write_text(content + "\n# changed\n")
    with pytest.raises(Unavailable, match="file tiny.py is not what it was"):
        reproduce(study)
    file.write_text(content)


def test_what_goes_wrong_in_a_worker_is_said_with_its_place(tmp_path, tiny):
    _, file, _ = tiny
    bad = tmp_path / "bad_law.py"
    bad.write_text(
        "from unfit.experiments.deletions import add_law, LAWS\n"
        "import os\n"
        "def law(codes, norms, target, rng):\n"
        "    if os.getpid() != FIRST:\n"
        "        raise ZeroDivisionError('no such thing')\n"
        "    return norms.argsort()\n"
        f"FIRST = {os.getpid()}\n"
        "add_law('bad', law)\n"
    )
    study = Study(
        tmp_path / "out",
        ("deletion-laws",),
        datasets=("tiny",),
        quick=True,
        extensions=Extensions(
            (
                str(file),
                str(bad),
            )
        ),
        workers=1,
    )
    try:
        with pytest.raises(BadInput, match="retrain, tiny, bad: ZeroDivisionError: no such thing"):
            reproduce(study)
    finally:
        LAWS.pop("bad", None)


def test_the_same_settings_give_the_same_models(tiny, tmp_path):
    """In another folder, with another number of processes."""
    _, file, outcome = tiny
    names = ("correlation",)
    study = Study(
        tmp_path, names, datasets=("tiny",), quick=True, extensions=Extensions((str(file),))
    )
    found = reproduce(study).findings.frame
    before = outcome.findings.frame
    key = ["law", "fraction", "method", "tau", "sigma", "seed"]
    both = found.merge(before[before["kind"] == "unlearn"], on=key)
    assert len(both) == len(found) > 0
    np.testing.assert_array_equal(both["acc_dis_x"], both["acc_dis_y"])
    np.testing.assert_allclose(both["distance_x"], both["distance_y"], rtol=1e-6)


def command(*arguments, folder, **options):
    env = os.environ | {"UNFIT_CACHE": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, "-m", "unfit.cli", "reproduce", *arguments],
        env=env,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.slow
def test_killed_and_resumed_nothing_is_lost_and_nothing_repeated(tmp_path):
    file = extension(tmp_path)
    arguments = (
        "deletion-laws",
        "noise",
        "--with",
        str(file),
        "--datasets",
        "tiny",
        "--output",
        "out",
        "--workers",
        "2",
    )
    journal = tmp_path / "out" / "runs.journal"
    process = command(*arguments, folder=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 10):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = Runs(tmp_path / "out").frame()
    assert len(kept) >= 10
    resumed = command(*arguments, "--resume", "--json", folder=tmp_path)
    out, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    said = json.loads(out)
    assert said["runs_done"] == said["runs"] - len(kept)
    now = Runs(tmp_path / "out").frame()
    assert len(now) == said["runs"]
    columns = list(kept.columns)
    merged = kept.merge(now[columns], how="left", indicator=True)
    assert (merged["_merge"] == "both").all()  # the very rows, times included


@pytest.mark.slow
def test_workers_end_when_the_first_process_is_killed(tmp_path):
    file = extension(tmp_path)
    process = command(
        "noise",
        "--with",
        str(file),
        "--datasets",
        "tiny",
        "--workers",
        "1",
        folder=tmp_path,
        start_new_session=True,
    )
    group = os.getpgid(process.pid)
    journal = tmp_path / "reproduction" / "runs.journal"
    deadline = time.monotonic() + 120
    while not journal.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()  # which returns when nobody writes any more
    while running(group):
        assert time.monotonic() < deadline
        time.sleep(0.01)


SLEEPY = """
import time
from multiprocessing import parent_process
from pathlib import Path

import numpy as np

from unfit.experiments.deletions import add_law


def sleepy(codes, norms, target, rng):
    if parent_process() is not None:
        Path("asleep").touch()
        time.sleep(600)
    return np.arange(len(codes))


add_law("sleepy", sleepy)
"""


@pytest.mark.slow
def test_workers_end_in_the_middle_of_a_run(tmp_path):
    file = extension(tmp_path)
    slow = tmp_path / "slow.py"
    slow.write_text(SLEEPY)
    process = command(
        "deletion-laws",
        "--with",
        str(file),
        "--with",
        str(slow),
        "--workers",
        "1",
        "--datasets",
        "tiny",
        folder=tmp_path,
        start_new_session=True,
    )
    group = os.getpgid(process.pid)
    deadline = time.monotonic() + 120
    while not (tmp_path / "asleep").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    while running(group):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(group):
    """Processes of a group that have not ended (nor wait for somebody to ask how)."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = status.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(of_group) == group and state != "Z":
            found.append(status)
    return found


def test_wrong_names_are_said_before_any_work(tmp_path):
    with pytest.raises(BadInput, match="no figure or table 'nothing'; there are"):
        reproduce(Study(tmp_path / "out", ("nothing",)))
    with pytest.raises(BadInput, match="no data set 'nowhere'; there are"):
        reproduce(Study(tmp_path / "out", datasets=("nowhere",)))
    with pytest.raises(BadInput, match="there is no file"):
        reproduce(Study(tmp_path / "out", extensions=Extensions((str(tmp_path / "none.py"),))))
    bad = tmp_path / "bad.py"
    bad.write_text("import nothing_of_that_name")
    with pytest.raises(BadInput, match="bad.py: ModuleNotFoundError"):
        reproduce(Study(tmp_path / "out", extensions=Extensions((str(bad),))))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_list_and_a_table_on_the_screen(tmp_path):
    out, _ = command("--list", folder=tmp_path).communicate(timeout=60)
    assert "deletion-laws" in out
    assert "epsilon-like" in out
    process = command("parameters", "--datasets", "digits-b", folder=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "mini-batch" in out
