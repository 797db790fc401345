"""Kill -9 at every named point of a certified workspace: no release without its entry in the log,
and no entry without its release. Noise is fresh, so weights and files differ from run to run; what
is compared is everything else."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import crashing
import pytest
from certified import check_export, check_log, make_certified
from test_crash import ALWAYS, SUBJECTS, WINDOW, scenario
from workspaces import Kept, as_before, signature

import servers
from tiers import mostly_slow
from unfit.clock import now
from unfit.points import POINTS
from unfit.workspace import Workspace

QUICK = ["forget.certified"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    return make_certified(tmp_path_factory.mktemp("certified") / "w", database)


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    return make_certified(tmp_path_factory.mktemp("untrained") / "w", database, trained=False)


def settled(folder: Path) -> dict[str, Any]:
    """The state after a restart, without what depends on noise; the log is checked."""
    with Workspace(folder) as ws:
        if ws.store.versions.active() is None:
            with ws.session():
                pass
            assert ws.store.certificates.find() == []
        else:
            ws.prepare()
            check_log(ws)
            check_export(ws)
        found = signature(ws)
        active = found["active"]
        entries = [(c.number, c.version, c.kind, c.claim.deleted) for c in ws.certificates.find()]
        commitments = [len(c.claim.commitments) for c in ws.certificates.find()]
        salts = [len(ws.store.certificates.salts(r.id)) for r in ws.store.requests.find()]
    return found | {
        "active": active and (active[0], active[1], active[3]),
        "artifacts": len(found["artifacts"]),
        "card": None,
        "decisions": [(version, action) for version, action, _ in found["decisions"]],
        "certificates": entries,
        "commitments": commitments,
        "salts": salts,
    }


@pytest.mark.parametrize("point", mostly_slow(POINTS, QUICK))
def test_a_killed_process_leaves_no_release_without_its_entry(
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
    if verb == "forget":
        with clean.open() as ws:
            ws.submit(**options)
        states.append(settled(clean.folder))
    crashing.act(clean.folder, verb, options)
    states.append(settled(clean.folder))

    assert crashing.run(ours.folder, verb, options, die_at=point) == -9
    found = settled(ours.folder)
    assert found in states
    if found["active"] != states[-1]["active"] or verb == "forget":
        crashing.act(ours.folder, verb, options)
    assert settled(ours.folder) == states[-1]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["forget.certified", "forget.committed"])
def test_two_processes_and_one_that_dies_write_one_log(
    point: str, trained: Kept, tmp_path: Path
) -> None:
    ours = trained.copy(tmp_path / "ours")
    first, second = [f"p{i:04d}" for i in range(8)], [f"p{i:04d}" for i in range(8, 16)]
    dying = crashing.start_worker(ours.folder, first, "a", die_at=point, nth=3)
    living = crashing.start_worker(ours.folder, second, "b")
    dying.join(120)
    living.join(120)
    assert (dying.exitcode, living.exitcode) == (-9, 0)
    crashing.forget_each(ours.folder, first, "a")
    with ours.open() as ws:
        check_log(ws)
        check_export(ws)
