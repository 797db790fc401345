"""Training from scratch: write a generation of rows, train and rehearse, save, commit.

`train` makes the first version, from the source. Later ones are made from the rows that remain, see
retraining.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from unfit import disk
from unfit.certify import Promise, Releases, certified_settings
from unfit.certify.agreement import agreement
from unfit.data.dataset import Dataset, Raw
from unfit.data.encoding import Encoding
from unfit.data.generation import write_dataset
from unfit.data.ingest import Intake, split
from unfit.data.parallel import spool_at_once
from unfit.data.sources import open_source
from unfit.errors import BadInput, CannotTrain, Unavailable
from unfit.lifecycle.drift import held_out_quality
from unfit.lifecycle.pipeline import open_pipeline
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.step_size import overshooting
from unfit.stopwatch import Stopwatch
from unfit.store.records import (
    Applied,
    Decision,
    HeldOut,
    NewCertificate,
    NewVersion,
    Version,
)
from unfit.workspace import purge
from unfit.workspace.certification import EntryMaker, Release
from unfit.workspace.constants import class_weights
from unfit.workspace.list_format import Content
from unfit.workspace.model import (
    Card,
    Model,
    class_codes,
    engine_of,
    held_out,
    load_kernels,
    model_arrays,
)
from unfit.workspace.results import Trained
from unfit.workspace.session import Session

log = logging.getLogger("unfit")


@dataclass(frozen=True, kw_only=True)
class RowsToTrain:
    """Rows as they were read, and the positions of those to train on and to hold out."""

    raw: Raw
    train: np.ndarray
    test: np.ndarray

    @property
    def classes(self) -> list[str]:
        """The labels that training rows have, sorted."""
        used = np.unique(self.raw.labels[self.train]).tolist() if len(self.train) else []
        texts = (self.raw.label_texts[i] for i in used)
        return sorted(text for text in texts if text is not None)

    def require_trainable(self, label: str, *, new_split: bool) -> None:
        """label: the name of the column. new_split: whether subjects are held out anew."""
        n = len(self.classes)
        if n < 2:
            raise CannotTrain(
                f"label {label!r} has {n or 'no'} class{'' if n == 1 else 'es'} in the training "
                "rows; a classifier needs two"
            )
        if len(self.test) == 0:
            if new_split:
                remedy = "raise split.test_share, or bring more people"
            else:
                remedy = (
                    "a retraining keeps the split, so make a new workspace, with a larger "
                    "--test-share of `unfit init`"
                )
            raise CannotTrain(f"no subject is held out for testing; {remedy}")


@dataclass(frozen=True, kw_only=True)
class WrittenRows:
    """A generation on the disk: its name, the classes of its training rows, their encoding."""

    generation: str
    classes: list[str]
    encoding: Encoding


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training on its way. number: of the version it makes."""

    session: Session
    verb: Literal["train", "retrain"]
    number: int
    watch: Stopwatch
    progress: ProgressCallback | None

    @property
    def generation(self) -> str:
        return self.session.generation_name(self.number)

    @contextmanager
    def new_generation(self) -> Iterator[Path]:
        """A folder to write a generation in, which gets its name if all goes well."""
        folder, name = self.session.layout.data, self.generation
        disk.private_folder(folder)
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=disk.TEMPORARY, dir=folder))
        try:
            yield temporary
            for spooled in temporary.glob("spool-*"):
                spooled.unlink()
            disk.sync_folder(temporary)
            target = self.session.layout.generation(name)
            disk.remove(target)  # left by a crash before its version was committed
            disk.check()
            os.rename(temporary, target)
            disk.sync_folder(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)  # nobody else's, lock or no lock
            raise

    def write(self, rows: RowsToTrain, folder: Path) -> WrittenRows:
        """Fit the constants to the training rows, encode all rows, and write them."""
        config = self.session.config
        encoding = write_dataset(
            folder,
            rows.raw,
            rows.train,
            rows.test,
            columns=config.feature_columns(),
            norm=config.preprocessing.bound,
            min_rows=config.preprocessing.min_rows,
            kept_as=config.kept_as(),
            progress=self.progress,
            readers=self.session.readers(),
        )
        return WrittenRows(generation=self.generation, classes=rows.classes, encoding=encoding)

    def fit(self, written: WrittenRows) -> Model:
        """Train on a generation, evaluate, rehearse."""
        config, watch = self.session.config, self.watch
        choices, promise = config.model, config.certify.promise()
        settings = choices.settings()
        if promise is not None:
            settings = certified_settings(settings)
        method = METHODS.find(choices.method)(settings, refine=True, polished=promise is not None)
        card = Card(
            method=choices.method,
            settings=method.settings,
            loss=LOSSES.find(choices.loss)(),
            fit_intercept=choices.fit_intercept,
            classes=tuple(written.classes),
            label=config.roles.label,
            encoding=written.encoding,
            promise=promise,
        )
        dataset = Dataset(self.session.layout.generation(written.generation))
        of_label, live = class_codes(dataset, card.classes), dataset.live
        labels = of_label[dataset["labels"][: dataset.n_train]][live[: dataset.n_train]]
        weights = class_weights(choices.class_weight, card.classes, labels)
        card = replace(card, class_weights=weights, balanced=choices.class_weight == "balanced")
        data = engine_of(dataset, card, of_label, live, self.session.engine_choice())
        test = held_out(dataset, card, of_label)
        rng = self.session.rng(self.number)
        if self.progress is not None:
            self.progress("training", 0, 0)
        method.require(data)
        with watch.loading_kernels():
            load_kernels(method, data)
        try:
            opened = open_pipeline(
                method,
                data,
                test,
                card.classes,
                rng,
                theta=config.policy.theta,
                progress=self.progress,
                phase=watch.phase,
            )
        except FloatingPointError as error:
            raise CannotTrain(f"training failed: {error}; preprocessing.norm sets it") from None
        except np.linalg.LinAlgError as error:
            raise CannotTrain(f"training failed: {error}") from None
        if method.solver == "sgd":
            l2 = method.penalty(data).per_row_of(data.n_remaining)
            too_long = overshooting(data, method.settings.learning_rate, l2)
            if too_long is not None:
                log.warning("%s", too_long)
        model = Model(
            dataset=dataset,
            card=card,
            method=method,
            baseline=opened.baseline,
            data=data,
            state=opened.state,
            initially_correct=opened.initially_correct,
            live=live,
            class_of_label=of_label,
        )
        if promise is not None:
            self._certify(model, promise)
        return model

    def _certify(self, model: Model, promise: Promise) -> None:
        """Release the model with noise, near enough to the optimum for its promise."""
        data, settings = model.data, model.method.settings
        with self.watch.phase("certify"):
            try:
                releases = Releases.open(promise, settings, data)
                ready = releases.polish(None, model.state, data, np.zeros(0, np.int64))
            except (Unavailable, ValueError) as error:
                raise CannotTrain(f"no certificate is possible: {error}") from None
            model.state, model.releases, model.ready = ready.released(), ready.releases, ready

    def save(self, model: Model, deleted: int = 0) -> NewVersion:
        """Write the files of a model just trained. deleted: training rows gone since the last."""
        artifacts, watch = self.session.artifacts, self.watch
        with watch.phase("write"):
            model_sha = artifacts.put_arrays(model_arrays(model.state, model.initially_correct))
            card_sha = artifacts.put_json(model.card.to_json())
        return NewVersion(
            kind="trained" if self.verb == "train" else "retrained",
            method=model.card.method,
            generation=model.generation,
            model_sha=model_sha,
            card_sha=card_sha,
            rows=model.data.n_remaining,
            subjects=model.dataset.subjects_left(),
            deleted=deleted,
            accuracy=_accuracy(model),
            seconds=watch.seconds,
            baseline=model.baseline.as_dict(),
            times=watch.times(),
            held_out=_held_out_quality(model),
        )

    def certificate(self, model: Model, deleted: int = 0) -> NewCertificate | None:
        """The entry of the log that goes with a model just trained, if it is certified."""
        if model.ready is None:
            return None
        release = Release.of(model.card, model.ready, model.state, trained=True)
        maker = EntryMaker(session=self.session, number=self.number, deleted=deleted)
        return maker.of_release("trained" if self.verb == "train" else "retrained", release)

    def decision(self, model: Model, reason: str) -> Decision:
        """Why a version was trained that nobody's erasure led to."""
        baseline = model.baseline
        return Decision(
            version=self.number,
            at=self.session.clock(),
            action="open" if self.verb == "train" else "retrain",
            reason=reason,
            inputs={
                "slope": baseline.slope,
                "rows": baseline.rows,
                "accuracy": baseline.accuracy,
            },
            estimate=0.0,
            threshold=self.session.config.policy.disparity,
        )

    def activate(self, version: Version, model: Model) -> None:
        """After the commit: the version is the active one, and what it leaves behind is purged."""
        self.session.activate(version, model, self.watch)
        if model.ready is not None:
            self.session.sign_waiting()
        purge.after_commit(self.session)

    def result(self, version: Version, model: Model, source: "SourceRead | None" = None) -> Trained:
        """What `train` and `retrain` answer."""
        intake = Intake() if source is None else source.intake
        return Trained(
            version=version.number,
            kind=version.kind,
            method=version.method,
            rows=version.rows,
            subjects=version.subjects,
            columns=model.card.encoding.width,
            accuracy=version.accuracy if version.accuracy is not None else 0.0,
            slope=model.baseline.slope,
            seconds=self.watch.seconds,
            left_out=0 if source is None else source.left_out,
            phases=dict(self.watch.phases),
            kernels=self.watch.kernels,
            dropped=intake.dropped,
            unreadable=intake.unreadable,
            held_out=version.held_out,
        )


@dataclass(frozen=True, kw_only=True)
class SourceRead:
    """The rows of the source, written. left_out: how many of them the deletion list names."""

    written: WrittenRows
    left_out: int
    intake: Intake


def train(session: Session, progress: ProgressCallback | None) -> Trained:
    """Read the source and train the first model."""
    if session.active is not None:
        raise Unavailable(
            "this workspace is trained already; `unfit retrain` trains again on the rows "
            "that remain, and a new workspace starts from the source"
        )
    reach("train.start")
    watch = Stopwatch()
    training = Training(session=session, verb="train", number=1, watch=watch, progress=progress)
    session.begin_list()
    listed = session.deletions.read()
    source = _read_source(training, listed)
    reach("train.dataset-written")
    model = training.fit(source.written)
    reach("train.trained")
    new = training.save(model)
    reach("train.artifacts-written")
    decision = training.decision(model, "the first model of this workspace")
    assert listed.position is not None
    known = session.deletions.join(session.config.id, listed.position)
    with watch.phase("commit"):
        applied = Applied(list_known=str(known), certificate=training.certificate(model))
        version = session.store.commit(None, new, decision, applied, session.clock())
    watch.stop()
    session.note_list_known(known)
    reach("train.committed")
    training.activate(version, model)
    return training.result(version, model, source)


def _read_source(training: Training, listed: Content) -> SourceRead:
    """Write the rows of the source but those that the deletion list names: they never get in."""
    session, watch = training.session, training.watch
    config, roles, intake = session.config, session.config.the_roles(), Intake()
    source = open_source(config.location(session.layout.folder))
    with training.new_generation() as folder:
        with watch.phase("read"):
            reading = source, roles, config.feature_columns()
            raw = spool_at_once(reading, folder, session.readers(), training.progress, intake)
        reach("train.rows-spooled")
        left_out = _listed_positions(raw, listed, session)
        train, test = split(raw, config.split.test_share, config.split.seed, left_out)
        rows = RowsToTrain(raw=raw, train=train, test=test)
        rows.require_trainable(roles.label, new_split=True)
        with watch.phase("encode"):
            written = training.write(rows, folder)
    return SourceRead(written=written, left_out=len(left_out), intake=intake)


def _listed_positions(raw: Raw, listed: Content, session: Session) -> list[int]:
    """The rows of a source just read that the deletion list names."""
    rows = listed.of("row")
    people = raw.subject_ids.find_all(listed.of("subject"))
    mask = np.isin(raw.subjects, [place for place in people if place is not None])
    if raw.row_ids is not None and raw.row_places is not None:
        places = [place for place in raw.row_ids.find_all(rows) if place is not None]
        mask |= np.isin(raw.row_places, places)
    elif rows and session.config.id not in listed.of("workspace"):
        raise BadInput(
            f"the deletion list {session.deletions.path.name} names rows by their numbers in "
            "another source; name a column with --row-id, or move the list away"
        )
    else:
        numbers = [int(value) for value in rows if value.isascii() and value.isdigit()]
        mask |= np.isin(raw.numbers, numbers)
    return np.flatnonzero(mask).tolist()


def _accuracy(model: Model) -> float:
    """Of the weights as they are released, on held-out rows."""
    if model.ready is None:
        return model.baseline.accuracy
    return float(model.test.correct(model.state.weights).mean())


def _held_out_quality(model: Model) -> HeldOut:
    weights, rows, ready = model.state.weights, model.test_rows(), model.ready
    found = held_out_quality(weights, model.test)
    return HeldOut(
        majority=found.majority,
        log_loss=found.log_loss,
        auc=found.auc,
        initial_accuracy=model.baseline.accuracy,
        log_loss_change=0.0,
        agreement=None if ready is None else agreement(rows, weights, *ready.ball),
    )
