"""Retraining: a model from scratch on the rows that remain, with new constants and a new baseline.

Raw values lie beside the encoded rows, so no source is read again.
"""

from dataclasses import dataclass

import numpy as np

from unfit.data.dataset import Dataset
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.stopwatch import Stopwatch
from unfit.store.records import Applied, NewVersion
from unfit.workspace.certification import Release
from unfit.workspace.model import Model
from unfit.workspace.results import Trained
from unfit.workspace.session import Session
from unfit.workspace.training import RowsToTrain, Training, WrittenRows


@dataclass(frozen=True, kw_only=True)
class Retrained:
    """A model trained on the rows that remain, and its version, not yet committed."""

    new: NewVersion
    model: Model

    @property
    def release(self) -> Release | None:
        """Of the model, where it is certified."""
        ready, model = self.model.ready, self.model
        return None if ready is None else Release.of(model.card, ready, model.state, trained=True)


def retrain(session: Session, progress: ProgressCallback | None, reason: str) -> Trained:
    """Train again on the rows that remain, because somebody asked for it."""
    before = session.require_version()
    training = begin(session, Stopwatch(), progress)
    made = retrain_rows(training, session.dataset(), session.live(), deleted=0)
    decision = training.decision(made.model, reason)
    with training.watch.phase("commit"):
        applied = Applied(certificate=training.certificate(made.model))
        version = session.store.commit(before, made.new, decision, applied, session.clock())
    training.watch.stop()
    reach("retrain.committed")
    training.activate(version, made.model)
    return training.result(version, made.model)


def begin(session: Session, watch: Stopwatch, progress: ProgressCallback | None) -> Training:
    reach("retrain.start")
    return Training(
        session=session,
        verb="retrain",
        number=session.require_version().number + 1,
        watch=watch,
        progress=progress,
    )


def retrain_rows(
    training: Training, dataset: Dataset, live: np.ndarray, *, deleted: int
) -> Retrained:
    """Write a new generation of the live rows and train on it. deleted: training rows that left."""
    written = _write(training, dataset, live)
    reach("retrain.dataset-written")
    model = training.fit(written)
    reach("retrain.trained")
    new = training.save(model, deleted)
    reach("retrain.artifacts-written")
    return Retrained(new=new, model=model)


def rows_to_train(session: Session, dataset: Dataset, live: np.ndarray) -> RowsToTrain:
    """The live rows; refused if no model can be trained on them."""
    session.require_same_columns(dataset)
    n = dataset.n_train
    train, test = np.flatnonzero(live[:n]), n + np.flatnonzero(live[n:])
    rows = RowsToTrain(raw=dataset.raw(), train=train, test=test)
    rows.require_trainable(session.config.roles.label, new_split=False)
    return rows


def _write(training: Training, dataset: Dataset, live: np.ndarray) -> WrittenRows:
    rows = rows_to_train(training.session, dataset, live)
    with training.watch.phase("encode"), training.new_generation() as folder:
        return training.write(rows, folder)
