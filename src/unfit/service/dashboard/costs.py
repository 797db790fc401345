"""What erasures and retrainings took, like beside like: warm, step by step, whole by whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unfit.store.records import Times, Version

LAST = 50  # erasures that count
_ITS_OWN = ("encode", "train", "evaluate", "rehearse", "write", "commit")  # of a retraining


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Medians in milliseconds; None where nothing of the kind was measured warm.

    unlearn and train are the two steps alone; update and retrain are wholes, from the work being
    taken up to the commit (of a retraining that an erasure led to, its own phases). rows_read: by
    the last of these erasures, of the rows_left that stayed, each time it read them. looked_at:
    versions, left_out of them were cold or have no phases on record.
    """

    looked_at: int
    updates: int
    unlearn_ms: float | None
    update_ms: float | None
    purge_ms: float | None
    one_step_ms: float | None
    trainings: int
    train_ms: float | None
    retrainings: int
    retrain_ms: float | None
    left_out: int
    rows_read: int | None
    rows_left: int

    @property
    def passes(self) -> float | None:
        """How often the last erasure read the rows that stayed."""
        return _ratio(self.rows_read, self.rows_left)

    @property
    def step_ratio(self) -> float | None:
        """A training step in unlearning steps."""
        return _ratio(self.train_ms, self.unlearn_ms)

    @property
    def whole_ratio(self) -> float | None:
        """A retraining in erasures."""
        return _ratio(self.retrain_ms, self.update_ms)


def costs(versions: Sequence[Version]) -> Costs:
    warm = [(v, v.times) for v in versions if v.times is not None and not v.times.cold]
    updates = [(v, t) for v, t in warm if v.kind == "updated" and "unlearn" in t.phases][-LAST:]
    trained = [(v, t) for v, t in warm if "train" in t.phases]
    whole = [t for v, t in trained if v.kind == "retrained"]
    made = [v for v in versions if v.kind != "withdrawn"]
    last = updates[-1] if updates else None
    return Costs(
        looked_at=len(versions),
        updates=len(updates),
        unlearn_ms=_median([t.phases["unlearn"] for _, t in updates]),
        update_ms=_median([v.seconds for v, _ in updates]),
        purge_ms=_median([t.purge for _, t in updates if t.purge is not None]),
        one_step_ms=_median([t.phases["unlearn"] for _, t in updates if t.steps == 1]),
        trainings=len(trained),
        train_ms=_median([t.phases["train"] for _, t in trained]),
        retrainings=len(whole),
        retrain_ms=_median([_alone(t) for t in whole]),
        left_out=sum(v.times is None or v.times.cold for v in made),
        rows_read=None if last is None else last[1].rows_read,
        rows_left=0 if last is None else last[0].rows,
    )


def _alone(times: Times) -> float:
    return sum(times.phases.get(name, 0.0) for name in _ITS_OWN)


def _median(seconds: Sequence[float]) -> float | None:
    return 1000 * median(seconds) if seconds else None


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None
