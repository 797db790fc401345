"""Can an audit fail? Forget people of the Diabetes data, and again without unlearning anything.

    UNFIT_DATA=... python tools/verdict_study.py [--quick] [--rare]

For single patients and for groups of 20, 100 and 1,000: a workspace forgets them, an audit with the
auditor's copy of their rows and one without judge the model; then the weights from before are put
back, as if nothing had been unlearned, and both judge again. Last, with a label that one stay in
nine has: 60 % of the patients who have it are forgotten, and what policy and audit make of it.
--quick: made-up patients, a few seconds.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from unfit.audit import Audit, Question, compare
from unfit.lifecycle.policies import Disparity, Distance, LogLoss
from unfit.methods import State
from unfit.stopwatch import Stopwatch
from unfit.workspace import Workspace, init
from unfit.workspace.audit import Report
from unfit.workspace.erasure import resolve_ids
from unfit.workspace.model import Model
from unfit.workspace.unlearning import Unlearning

PERSON, LABEL = "patient_nbr", "readmitted"


@dataclass(frozen=True)
class Case:
    """One group that was forgotten, or left in: the verdicts with and without their rows."""

    people: int
    unlearned: bool
    with_rows: Report
    without_rows: Report


def made_up(n: int = 6000, seed: int = 0) -> pa.Table:
    """Stays of patients of whom one in nine comes back soon."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, n // 2, n)
    numbers = rng.standard_normal((n, 8))
    score = numbers[:, :3] @ [0.5, -0.4, 0.4] + rng.logistic(size=n)
    cut = np.quantile(score, [0.55, 0.89])
    label = np.array(["NO", ">30", "<30"])[np.searchsorted(cut, score)]
    columns = {f"x{i}": numbers[:, i] for i in range(8)}
    return pa.table({PERSON: pa.array(who, pa.int32()), **columns, LABEL: label.tolist()})


def workspace(folder: Path, table: pa.Table, positive: Sequence[str]) -> Workspace:
    source = folder / "stays.parquet"
    parquet.write_table(table, source)
    ignore = [name for name in ("encounter_id",) if name in table.column_names]
    init(
        source,
        folder / "ws",
        label=LABEL,
        subject=PERSON,
        positive=positive,
        ignore=ignore,
        max_categories=20,
        random_state=0,
    )
    toml = folder / "ws" / "unfit.toml"
    toml.write_text(toml.read_text().replace('["distance", "log_loss", "disparity"]', '["never"]'))
    ws = Workspace(folder / "ws")
    ws.train()
    return ws


def people_of(ws: Workspace) -> list[int]:
    """Patients whose rows are trained on."""
    with ws.session() as session:
        d = session.dataset()
        rows = np.flatnonzero(d.live)
        each = np.unique(d["subjects"][rows[rows < d.n_train]])
        texts = [d.subject_ids.text(int(place)) for place in each]
    return [int(text) for text in texts if text is not None]


def rows_of(table: pa.Table, people: Sequence[int], at: Path) -> Path:
    chosen = pc.is_in(table[PERSON], value_set=pa.array(people, pa.int32()))
    parquet.write_table(table.filter(chosen), at)
    return at


def judged(ws: Workspace, table: pa.Table, people: Sequence[int]) -> list[Case]:
    """Forget people, judge; put the weights from before back, judge; and leave all as unlearned."""
    with ws.session() as session:
        before = session.open_model().state.weights.copy()
    if ws.forget(subjects=list(people)).action != "update":
        return []  # a constant was due, so that all was trained anew: nothing was unlearned
    gone = rows_of(table, people, ws.folder.parent / "gone.parquet")
    made = [
        Case(len(people), True, ws.audit(deleted=gone, random_state=0), ws.audit(random_state=0))
    ]
    with ws.session() as session:
        loaded = session.open_model()
        unlearned = loaded.state
        loaded.state = replace(unlearned, weights=before, statistics=None, stale_inverse=None)
    made.append(
        Case(len(people), False, ws.audit(deleted=gone, random_state=0), ws.audit(random_state=0))
    )
    with ws.session() as session:
        session.open_model().state = unlearned
    return made


def rare_label(ws: Workspace, table: pa.Table, share: float) -> tuple[dict[str, object], Audit]:
    """Forget a share of the patients with the rare label; what policies say, and an audit."""
    labels = table[LABEL].to_pylist()
    positive = {
        who for who, said in zip(table[PERSON].to_pylist(), labels, strict=True) if said == "<30"
    }
    there = sorted(positive & set(people_of(ws)))
    rng = np.random.default_rng(0)
    chosen = rng.choice(there, max(1, int(share * len(there))), replace=False).tolist()
    with ws.session() as session:
        ids = [("subject", str(who)) for who in chosen]
        positions = resolve_ids(session, ids).positions  # type: ignore[arg-type]
        loaded = session.ready_model()
        work = Unlearning(
            session=session,
            before=session.require_version(),
            model=loaded,
            positions=positions,
            watch=Stopwatch(),
        )
        step = work.evaluate(np.random.default_rng(0)).step
        audit = _audit_of(loaded, step.state, positions)
    facts = step.facts
    said: dict[str, object] = {
        "people": len(chosen),
        "rows": facts.deleted,
        "accuracy": facts.accuracy,
        "majority": facts.majority,
        "log_loss": facts.log_loss,
        "log_loss_change": facts.log_loss_change,
        "auc": facts.auc,
        "distance": facts.distance,
        "estimate": facts.estimate,
        "disparity": Disparity(1.0).decide(facts).retrain,
        "distance_policy": Distance(5.0).decide(facts).retrain,
        "log_loss_policy": LogLoss(0.01).decide(facts).retrain,
    }
    return said, audit


def _audit_of(loaded: Model, state: State, positions: np.ndarray) -> Audit:
    """An audit of a model that has forgotten, though nobody employs it."""
    leaving = positions[positions < loaded.dataset.n_train]
    without = loaded.data.shared()
    without.forget(leaving)
    asked = Question(
        method=loaded.method,
        state=state,
        data=without,
        test=loaded.test_rows().take(loaded.test_positions(positions)),
        deleted=loaded.data.take(leaving),
        n_deleted=len(leaving),
    )
    return compare(asked, threshold=1.0, draws=None, rng=np.random.default_rng(0))


def run(quick: bool, rare_alone: bool = False) -> dict[str, object]:
    """Everything, as JSON can hold it."""
    if quick:
        table, singles, groups = made_up(), 3, (20,)
    else:
        path = Path(os.environ["UNFIT_DATA"]) / "diabetes130.parquet"
        table, singles, groups = parquet.read_table(path), 20, (20, 100, 1000)
    if rare_alone:
        singles, groups = 0, ()
    cases: list[Case] = []
    with (
        tempfile.TemporaryDirectory() as name,
        workspace(Path(name), table, ["<30", ">30"]) as ws,
    ):
        everyone = np.random.default_rng(1).permutation(people_of(ws)).tolist()
        for size in [1] * singles + list(groups):
            made: list[Case] = []
            while not made:
                people, everyone = everyone[:size], everyone[size:]
                made = judged(ws, table, people)
            cases += made
            print(
                f"{size}: {made[0].with_rows.verdict}; nothing unlearned: "
                f"{made[1].with_rows.verdict}",
                file=sys.stderr,
            )
    rare = {}
    for share in (0.6, 0.0):
        with (
            tempfile.TemporaryDirectory() as folder,
            workspace(Path(folder), table, ["<30"]) as ws,
        ):
            said, audit = rare_label(ws, table, share)
        name = "most" if share else "one"
        rare[name] = said | {
            "outcome": audit.outcome,
            "verdict": audit.verdict,
            "weight_distance": audit.weight_distance,
            "probabilities_differ": audit.probabilities_differ,
            "acc_dis": audit.acc_dis,
        }
    return {"groups": summary(cases), "rare": rare}


def summary(cases: Sequence[Case]) -> list[dict[str, object]]:
    found = []
    for people in dict.fromkeys(case.people for case in cases):
        for unlearned in (True, False):
            of = [c for c in cases if c.people == people and c.unlearned == unlearned]
            audits = [c.with_rows.audit for c in of]
            left = [a.influence_left or 0.0 for a in audits]
            found.append(
                {
                    "people": people,
                    "unlearned": unlearned,
                    "runs": len(of),
                    "with_rows": dict(Counter(c.with_rows.outcome for c in of)),
                    "without_rows": dict(Counter(c.without_rows.outcome for c in of)),
                    "influence_left": [min(left), max(left)],
                    "rows_left": max(a.rows_left or 0.0 for a in audits),
                    "predictions_differ": max(a.predictions_differ or 0.0 for a in audits),
                    "acc_dis": max(a.acc_dis or 0.0 for a in audits),
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rare", action="store_true", help="the rare label alone")
    asked = parser.parse_args()
    print(json.dumps(run(asked.quick, asked.rare), indent=1))


if __name__ == "__main__":
    main()
