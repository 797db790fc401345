"""Kill -9 at every named point: what is left is the state before or after, and goes on."""

import re
from datetime import timedelta
from pathlib import Path

import crashing
import pytest
from workspaces import Kept, as_before, signature

import unfit
from tiers import mostly_slow
from unfit.clock import now
from unfit.points import POINTS
from unfit.workspace import Workspace

SUBJECTS = ["p0003", "p0017", "nobody"]
ALWAYS = ('retrain_when = ["disparity"]', 'retrain_when = ["always"]')
WINDOW = ('audit_window = "none"', 'audit_window = "30d"')


def scenario(point: str) -> tuple[str, bool]:
    """A verb that passes the point, and whether its policy is to retrain."""
    if point.startswith("train.") or point in ("list.created", "list.key-written"):
        return "train", False
    if point == "retrain.committed":
        return "retrain", False
    return "forget", point.startswith("retrain.")


def settled(folder: Path) -> dict:
    """The state after a restart has put in order what there was to put in order."""
    with Workspace(folder) as ws:
        if ws.store.versions.active() is None:
            with ws.session():
                pass
        else:
            ws.prepare()
        return signature(ws)


@pytest.mark.path
@pytest.mark.parametrize("point", mostly_slow(POINTS, ["forget.committed", "purge.rows-erased"]))
def test_a_killed_process_leaves_the_old_state_or_the_new(
    point: str, untrained: Kept, trained: Kept, tmp_path: Path
) -> None:
    verb, retrains = scenario(point)
    options = {"subjects": SUBJECTS, "key": "k"} if verb == "forget" else {}
    origin = untrained if verb == "train" else trained
    ours, clean = origin.copy(tmp_path / "ours"), origin.copy(tmp_path / "clean")
    for kept in (ours, clean):
        toml = kept.folder / "unfit.toml"
        text = toml.read_text().replace(*WINDOW)
        toml.write_text(text.replace(*ALWAYS) if retrains else text)
        if point == "list.upgraded":
            as_before(kept)
        if point == "retained.removed":
            with Workspace(kept.folder, clock=lambda: now() - timedelta(days=31)) as ws:
                ws.forget(subjects=["p0005"], key="earlier")
    states = [settled(clean.folder)]
    if verb == "forget":  # a request that was accepted and waits is a state of its own
        with clean.open() as ws:
            ws.submit(**options)
        states.append(settled(clean.folder))
    crashing.act(clean.folder, verb, options)
    after = settled(clean.folder)
    states.append(after)
    assert after != states[0]

    assert crashing.run(ours.folder, verb, options, die_at=point) == -9
    found = settled(ours.folder)
    assert found in states
    if found["active"] != after["active"] or verb == "forget":
        crashing.act(ours.folder, verb, options)
    assert settled(ours.folder) == after


def test_every_point_in_the_code_is_listed_and_every_listed_one_is_in_the_code() -> None:
    root = Path(unfit.__file__).parent
    text = "\n".join(path.read_text() for path in root.rglob("*.py"))
    assert set(re.findall(r'\breach\("([^"]+)"\)', text)) == set(POINTS)
    assert len(POINTS) == len(set(POINTS))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["forget.unlearned", "forget.committed", "purge.files-removed"])
def test_a_worker_killed_while_another_takes_over(
    point: str, trained: Kept, tmp_path: Path
) -> None:
    ours = trained.copy(tmp_path / "ours")
    first, second = [f"p{i:04d}" for i in range(12)], [f"p{i:04d}" for i in range(12, 24)]
    dying = crashing.start_worker(ours.folder, first, "a", die_at=point, nth=3)
    living = crashing.start_worker(ours.folder, second, "b")
    dying.join(120)
    living.join(120)
    assert (dying.exitcode, living.exitcode) == (-9, 0)
    crashing.forget_each(ours.folder, first, "a")  # its requests are made again
    _check_all_forgotten(ours, [*first, *second])


@pytest.mark.slow
def test_two_workers_at_once(trained: Kept, tmp_path: Path) -> None:
    ours = trained.copy(tmp_path / "ours")
    shared = [f"p{i:04d}" for i in range(10)]
    workers = [crashing.start_worker(ours.folder, shared, name) for name in ("a", "b")]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    _check_all_forgotten(ours, shared)
    with ours.open() as ws:
        said = [i.outcome for r in ws.store.requests.find() for i in r.items]
    present = {s for s in shared if s in _people(trained)}
    assert said.count("forgotten") == len(present)
    assert said.count("forgotten") + said.count("repeated") + said.count("unknown") == 20


def _people(kept: Kept) -> set[str]:
    with kept.open() as ws, ws.session() as session:
        ids = session.dataset().subject_ids
        return {ids.text(i) or "" for i in range(len(ids))}


def _check_all_forgotten(kept: Kept, subjects: list[str]) -> None:
    """No row twice, none lost, and the model stands for the rows that are left."""
    with kept.open() as ws, ws.session() as session:
        dataset = session.dataset()
        rows = [row for row, _ in ws.store.forgotten.rows()]
        assert len(rows) == len(set(rows))
        assert all(dataset.subject_rows(s) is None for s in subjects)
        assert dataset.n - int(dataset.live.sum()) == len(rows)
        assert session.open_model().state.n == int(dataset.live[: dataset.n_train].sum())
        assert ws.store.requests.counts()["pending"] == 0
