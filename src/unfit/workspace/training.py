"""From rows to a version ready to be employed: write a generation, train, rehearse, save."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from unfit import disk
from unfit.data.dataset import Dataset, Raw
from unfit.data.encoding import Encoding
from unfit.data.generation import write_dataset
from unfit.engines.cpu import CpuEngine
from unfit.errors import CannotTrain
from unfit.lifecycle.drift import held_out_quality
from unfit.lifecycle.pipeline import Opened, open_pipeline
from unfit.methods import METHODS, Method
from unfit.progress import ProgressCallback
from unfit.step_size import overshooting
from unfit.store.artifacts import Artifacts
from unfit.store.records import HeldOut, NewVersion, Version
from unfit.workspace.config import Config
from unfit.workspace.model import Card, Model, class_codes, engine_of, held_out, model_arrays
from unfit.workspace.stopwatch import Stopwatch

log = logging.getLogger("unfit")


@dataclass(frozen=True)
class Fresh:
    """A generation on disk and a model of it, not yet employed."""

    dataset: Dataset
    card: Card
    method: Method
    data: CpuEngine
    opened: Opened
    class_of_label: np.ndarray

    def employed(self, version: Version) -> Model:
        return Model(
            version, self.dataset, self.card, self.method, self.opened.baseline, self.data,
            self.opened.state, self.opened.correct, self.dataset.live, self.class_of_label,
        )  # fmt: skip


@contextmanager
def building(folder: Path, name: str) -> Iterator[Path]:
    """A folder to write a generation in, which becomes folder/name if all goes well."""
    disk.private_folder(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=disk.TEMPORARY, dir=folder))
    try:
        yield temporary
        for spooled in temporary.glob("spool-*"):
            spooled.unlink()
        disk.sync_folder(temporary)
        target = folder / name
        disk.remove(target)  # left by a crash before its version was employed
        disk.check()
        os.rename(temporary, target)
        disk.sync_folder(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)  # nobody else's, lock or no lock
        raise


def classes_of(raw: Raw, train: np.ndarray) -> list[str]:
    """The labels that training rows have, sorted."""
    used = np.unique(raw.labels[train]).tolist() if len(train) else []
    return sorted(text for text in (raw.label_texts[i] for i in used) if text is not None)


def write_generation(
    folder: Path,
    raw: Raw,
    train: np.ndarray,
    test: np.ndarray,
    config: Config,
    progress: ProgressCallback | None,
) -> Encoding:
    columns = config.feature_columns()
    pre = config.preprocessing
    return write_dataset(
        folder,
        raw,
        train,
        test,
        columns=columns,
        norm=pre.bound,
        min_rows=pre.min_rows,
        progress=progress,
    )


def require_trainable(classes: list[str], test: np.ndarray, label: str) -> None:
    if len(classes) < 2:
        raise CannotTrain(
            f"label {label!r} has {len(classes) or 'no'} class{'' if len(classes) == 1 else 'es'} "
            "in the training rows; a classifier needs two"
        )
    if len(test) == 0:
        raise CannotTrain(
            "no subject is held out for testing; raise split.test_share, or bring more people"
        )


def train_model(
    dataset: Dataset,
    classes: list[str],
    encoding: Encoding,
    config: Config,
    rng: np.random.Generator,
    progress: ProgressCallback | None,
    watch: Stopwatch,
) -> Fresh:
    """Train on a generation just written, evaluate, rehearse."""
    m = config.model
    method = METHODS[m.method](m.settings(), refine=True)
    card = Card(
        m.method, method.settings, m.fit_intercept, tuple(classes), config.roles.label, encoding
    )
    of_label = class_codes(dataset, classes)
    data = engine_of(dataset, of_label, len(classes), m.fit_intercept, dataset.live)
    test = held_out(dataset, of_label, m.fit_intercept)

    if progress is not None:
        progress("training", 0, 0)
    watch.get_kernels_ready(method, data)
    try:
        opened = open_pipeline(method, data, test, rng, progress, config.policy.theta, watch.phase)
    except FloatingPointError as error:
        raise CannotTrain(f"training failed: {error}; preprocessing.norm sets it") from None
    except np.linalg.LinAlgError as error:
        raise CannotTrain(f"training failed: {error}") from None
    if method.solver == "sgd":
        too_long = overshooting(data.rows, method.settings.learning_rate, method.settings.l2)
        if too_long is not None:
            log.warning("%s", too_long)
    return Fresh(dataset, card, method, data, opened, of_label)


def save(
    fresh: Fresh,
    artifacts: Artifacts,
    kind: Literal["trained", "retrained"],
    deleted: int,
    watch: Stopwatch,
) -> NewVersion:
    """Write a freshly trained model's files."""
    opened = fresh.opened
    with watch.phase("write"):
        model_sha = artifacts.put_arrays(model_arrays(opened.state, opened.correct))
        card_sha = artifacts.put_json(fresh.card.to_json())
    return NewVersion(
        kind=kind,
        method=fresh.card.method,
        generation=fresh.dataset.folder.name,
        model_sha=model_sha,
        card_sha=card_sha,
        rows=fresh.data.n_remaining,
        subjects=fresh.dataset.subjects_left(),
        deleted=deleted,
        accuracy=opened.baseline.accuracy,
        seconds=watch.seconds,
        baseline=opened.baseline.as_dict(),
        times=watch.times(),
        held_out=_seen(fresh),
    )


def _seen(fresh: Fresh) -> HeldOut:
    test = held_out(fresh.dataset, fresh.class_of_label, fresh.card.fit_intercept)
    found = held_out_quality(fresh.opened.state.weights, test)
    return HeldOut(
        majority=found.majority,
        log_loss=found.log_loss,
        auc=found.auc,
        initial_accuracy=found.accuracy,
        log_loss_change=0.0,
    )
