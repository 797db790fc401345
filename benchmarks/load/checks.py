"""What must hold whatever happened: the ledger against the records, the versions against time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unfit.data.dataset import Dataset
from unfit.workspace import Workspace

from .erasures import Erasure
from .phases import Recording


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Empty lists are good."""

    accepted: int
    applied: int
    unaccepted: int  # sent, and never accepted: the client knows
    versions: dict[str, int]  # how many of each kind there are
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    remembered: list[str] = field(default_factory=list)
    stale: int = 0  # predictions by a version that still knew somebody in force before

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.remembered or self.stale)


def check(folder: Path, recording: Recording, rows_of: Mapping[str, int]) -> Findings:
    """Hold what clients were told against a workspace whose service has stopped."""
    accepted = [e for e in recording.erasures if e.accepted is not None]
    lost, twice, remembered = [], [], []
    with Workspace(folder) as workspace:
        version = workspace.store.versions.active()
        assert version is not None
        assert version.generation is not None
        dataset = Dataset(folder / "data" / version.generation)
        by_key: dict[str, list] = {}
        for request in workspace.store.requests.find():
            by_key.setdefault(request.key, []).append(request)
        for erasure in accepted:
            found = by_key.get(erasure.key, [])
            said = [(r.id, r.state, [(i.outcome, i.rows) for i in r.items]) for r in found]
            expected = (erasure.id, "applied", [("forgotten", rows_of[erasure.subject])])
            if expected not in said:
                lost.append(f"{erasure.key}: {said}")
            elif len(said) > 1:
                twice.append(f"{erasure.key}: {said}")
            if _rows_left(dataset, erasure.subject):
                remembered.append(erasure.key)
        kinds = Counter(v.kind for v in workspace.store.versions.find())
        forgotten, _ = workspace.store.forgotten.counts()
    named = [r.key for requests in by_key.values() for r in requests if r.state == "applied"]
    sent = {e.key: e for e in recording.erasures}
    gone = sum(rows_of[sent[key].subject] for key in named if key in sent)
    if forgotten != gone:
        twice.append(f"{forgotten} rows are forgotten, and those named have {gone}")
    return Findings(
        accepted=len(accepted),
        applied=len(named),
        unaccepted=len(recording.erasures) - len(accepted),
        versions=dict(kinds),
        lost=lost,
        twice=twice,
        remembered=remembered,
        stale=stale(recording, accepted),
    )


def stale(recording: Recording, erasures: Sequence[Erasure]) -> int:
    """Predictions sent after an erasure was reported in force, by a version before its own."""
    reported = sorted((e.in_force, e.version) for e in erasures if e.in_force and e.version)
    if not reported:
        return 0
    moments, versions = np.array(reported).T
    least = np.concatenate([[0.0], np.maximum.accumulate(versions)])
    needed = least[np.searchsorted(moments, recording.sent, "left")]
    return int(((recording.status == 200) & (recording.version < needed)).sum())


def _rows_left(dataset: Dataset, subject: str) -> int:
    found = dataset.subject_rows(subject)
    return 0 if found is None else int(dataset.live[found].sum())
