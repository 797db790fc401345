"""Models: what their card says, what predicts, and what is opened to unlearn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from unfit.certify import Promise, Ready, Releases
from unfit.core.losses import Loss
from unfit.core.objective import Rows, problems
from unfit.core.predictions import class_probabilities, margins
from unfit.core.sparse_rows import SparseRows
from unfit.data.csr import Csr
from unfit.data.dataset import IN_MEMORY, Dataset
from unfit.data.encoding import Encoding
from unfit.data.encoding import Rows as EncodedRows
from unfit.data.explained import explained
from unfit.data.shared_files import shared_files
from unfit.engines.base import Engine, MakeEngine, make_engine, reads_files
from unfit.errors import Damaged
from unfit.lifecycle.pipeline import Baseline, TestScores, TrainedModel, correct
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS, Method, Settings, State
from unfit.row_files import coded
from unfit.store.artifacts import Artifacts
from unfit.store.records import Version
from unfit.workspace.constants import Changes, RunningSums, class_weights
from unfit.workspace.layout import Layout

CARD_FORMAT = 2  # 1: constants were not rounded
SPARSE_CARD_FORMAT = 3  # with sparse rows or pairs, which an earlier unfit cannot read
_STATISTICS = ("gradient_sum", "hessian_sum", "l2", "penalty")
_warmed: set[object] = set()


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a model means: its method, settings and loss, its classes, the encoding of its rows.

    promise: what certificates claim of every release; None where there are none. class_weights: in
    the order of the classes; None where all are 1. balanced: whether they were fitted to the rows.
    """

    method: str
    settings: Settings
    loss: Loss
    fit_intercept: bool
    classes: tuple[str, ...]
    label: str
    encoding: Encoding
    promise: Promise | None = None
    class_weights: tuple[float, ...] | None = None
    balanced: bool = False

    @property
    def k(self) -> int:
        return problems(len(self.classes))

    @property
    def d(self) -> int:
        return self.encoding.width + self.fit_intercept

    def rows(self, X: EncodedRows, codes: np.ndarray) -> Rows:
        """Encoded rows with their class codes, as this model takes them."""
        if isinstance(X, Csr):
            return SparseRows(X.matrix(), codes, self.fit_intercept, self.loss)
        return Rows(X, codes, self.fit_intercept, self.loss)

    def training_rows(self, X: EncodedRows, codes: np.ndarray) -> Rows:
        """The same, with the weight of each row in the objective."""
        if self.class_weights is None:
            return self.rows(X, codes)
        weights = np.array([*self.class_weights, 1.0])[codes]  # the last one for unknown classes
        return replace(self.rows(X, codes), sample_weight=weights)

    def make_method(self) -> Method:
        polished = self.promise is not None
        return METHODS.find(self.method)(self.settings, refine=True, polished=polished)

    def to_json(self) -> dict[str, Any]:
        sparse = self.encoding.sparse or self.encoding.bags
        return {
            "format": SPARSE_CARD_FORMAT if sparse else CARD_FORMAT,
            "method": self.method,
            "settings": self.settings.to_json(),
            "loss": self.loss.name,
            "fit_intercept": self.fit_intercept,
            "classes": list(self.classes),
            "label": self.label,
            "encoding": self.encoding.to_json(),
            "constants": asdict(explained(self.encoding)),
            **({} if self.promise is None else {"promise": asdict(self.promise)}),
            **self._weights_to_json(),
        }

    def _weights_to_json(self) -> dict[str, Any]:
        if self.class_weights is None:
            return {}
        return {"class_weights": list(self.class_weights), "balanced": self.balanced}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Card":
        if content.get("format") not in (1, CARD_FORMAT, SPARSE_CARD_FORMAT):
            raise Damaged("the model card was written by another version of unfit")
        loss = LOSSES.find(content.get("loss", "logistic"))()  # older cards do not name it
        promise, weights = content.get("promise"), content.get("class_weights")
        try:
            return cls(
                method=content["method"],
                settings=Settings.from_json(content["settings"]),
                loss=loss,
                fit_intercept=content["fit_intercept"],
                classes=tuple(content["classes"]),
                label=content["label"],
                encoding=Encoding.from_json(content["encoding"]),
                promise=None if promise is None else Promise(**promise),
                class_weights=None if weights is None else tuple(map(float, weights)),
                balanced=bool(content.get("balanced", False)),
            )
        except (KeyError, TypeError) as error:
            raise Damaged(f"the model card has no valid entry {error}") from None


@dataclass(frozen=True)
class ReleasedModel:
    """The weights of a version and its card: enough to predict, and all that is ever exported."""

    version: int
    card: Card
    weights: np.ndarray

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (n, classes).

        With more than two classes one-vs-rest: those of separate models scaled to sum 1, which
        are not those of a softmax model. Losses that estimate no probability have their margins
        stretched to this range.
        """
        return class_probabilities(margins(X, self.weights), self.card.loss)


@dataclass(kw_only=True)
class Model:
    """A version opened for work: weights with their method state, the card, and the rows.

    `card`, `state`, `data`, `live`, `sums` and `releases` follow each erasure. releases: None where
    no certificates are made; ready: what was released of it at its training.
    """

    version_id: int | None = None  # None until it is committed
    dataset: Dataset
    card: Card
    method: Method
    baseline: Baseline
    data: Engine
    state: State
    initially_correct: np.ndarray  # held-out rows that the baseline's model got right
    live: np.ndarray  # mask over all rows: those that are not forgotten
    class_of_label: np.ndarray
    releases: Releases | None = None
    ready: Ready | None = None
    sums: RunningSums = field(init=False)
    test: TestScores = field(init=False)

    def __post_init__(self) -> None:
        self.sums = RunningSums(self.dataset)
        self.test = TestScores(self.test_rows())

    @property
    def generation(self) -> str:
        return self.dataset.folder.name

    def for_pipeline(self) -> TrainedModel:
        return TrainedModel(
            method=self.method,
            data=self.data,
            test=self.test,
            class_names=self.card.classes,
            state=self.state,
            baseline=self.baseline,
            initially_correct=self.initially_correct,
        )

    def training_rows(self, positions: np.ndarray) -> np.ndarray:
        """Those of some positions that the model was trained on."""
        return positions[positions < self.dataset.n_train]

    def test_positions(self, without: np.ndarray) -> np.ndarray:
        """Held-out rows that stay when some positions leave, counted from the first held-out."""
        live = self.live.copy()
        live[without] = False
        return np.flatnonzero(live[self.dataset.n_train :])

    def test_rows(self) -> Rows:
        """All held-out rows; erased ones are zeros."""
        return held_out(self.dataset, self.card, self.class_of_label)

    def correct_without(self, positions: np.ndarray) -> np.ndarray:
        """`initially_correct` when some positions leave."""
        correct, n = self.initially_correct.copy(), self.dataset.n_train
        correct[positions[positions >= n] - n] = False
        return correct

    def subjects_without(self, positions: np.ndarray) -> int:
        """How many subjects have a row when some positions leave."""
        return subjects_left(self.dataset, self.live, positions)

    def constants_without(self, positions: np.ndarray) -> Changes:
        """What it means for the constants that some positions leave."""
        found = self.sums.changes(self.card.encoding, self.live, positions)
        due = self.balance_without(positions)
        return found if due is None else replace(found, due=(*found.due, due))

    def balance_without(self, positions: np.ndarray) -> str | None:
        """Why class weights that were fitted must be fitted anew when some positions leave."""
        if not self.card.balanced:
            return None
        mask, n = self.live.copy(), self.dataset.n_train
        mask[positions] = False
        weights = class_weights("balanced", self.card.classes, self.data.codes[mask[:n]])
        if weights == self.card.class_weights:
            return None
        return "the balanced class weights are different for the remaining rows"

    def card_without(self, positions: np.ndarray) -> Card:
        """The card when some positions leave: without names that too few rows hold."""
        return replace(self.card, encoding=self.constants_without(positions).encoding)

    def prepare_sums(self) -> None:
        """Make the sums ahead of the next erasure."""
        self.sums.make(self.card.encoding, self.live)

    def forget(
        self,
        positions: np.ndarray,
        state: State | None = None,
        releases: Releases | None = None,
    ) -> None:
        """Follow an erasure that was committed. state: after it, if training rows have left, and
        releases, if it was certified."""
        leaving = self.training_rows(positions)
        if len(leaving):
            before = self.card.encoding
            self.card = self.card_without(positions)
            self.sums.subtract(before, leaving)
        if len(leaving) < len(positions):  # what was computed of held-out people goes with them
            self.initially_correct = self.correct_without(positions)
            self.test = TestScores(self.test_rows())
        self.data.forget(leaving)
        self.live[positions] = False
        if state is not None:
            self.state = state
            self.test.drop_others(state.weights, state.centre)
        if releases is not None:
            self.releases = releases


def subjects_left(dataset: Dataset, live: np.ndarray, positions: np.ndarray) -> int:
    """How many subjects have a row when some positions leave."""
    live = live.copy()
    live[positions] = False
    here = np.zeros(len(dataset.subject_ids), np.bool_)
    here[dataset["subjects"][live]] = True
    return int(np.count_nonzero(here))


def class_codes(dataset: Dataset, classes: Sequence[str]) -> np.ndarray:
    """label code -> class code, -1 where the model does not know the label."""
    place = {name: i for i, name in enumerate(classes)}
    known = [-1 if t is None else place.get(t, -1) for t in dataset.label_texts]
    return np.array(known, np.int32)


def held_out(dataset: Dataset, card: Card, class_of_label: np.ndarray) -> Rows:
    """The test rows, where they lie."""
    n = dataset.n_train
    return card.rows(dataset.rows()[n:], class_of_label[dataset["labels"][n:]])


def engine_of(
    dataset: Dataset,
    card: Card,
    class_of_label: np.ndarray,
    live: np.ndarray,
    engine: str | MakeEngine | None = None,
) -> Engine:
    """The training rows that remain, where they lie. live: mask over all rows."""
    n = dataset.n_train
    elsewhere = reads_files(engine)
    codes = coded(dataset["labels"][:n], class_of_label, in_place=elsewhere)
    X = (dataset.mapped_rows() if elsewhere else dataset.rows())[:n]
    files = shared_files(dataset, class_of_label, card.class_weights) if elsewhere else None
    rows, classes = card.training_rows(X, codes), len(card.classes)
    data = make_engine(rows, classes, name=engine, files=files)
    if X.nbytes <= IN_MEMORY:
        data.expect_passes()
    gone = np.flatnonzero(~live[:n])
    if len(gone):
        data.forget(gone)
    return data


def model_arrays(state: State, initially_correct: np.ndarray) -> dict[str, np.ndarray]:
    """What goes into a model's file; statistics go into one of their own."""
    arrays = {k: v for k, v in state.to_arrays().items() if k not in _STATISTICS}
    return arrays | {"initial_hits": initially_correct.astype(np.uint8)}


def statistics_arrays(state: State) -> dict[str, np.ndarray] | None:
    if state.statistics is None:
        return None
    return {k: v for k, v in state.to_arrays().items() if k in _STATISTICS}


def open_released_model(
    version: Version, artifacts: Artifacts, card: Card | None = None
) -> ReleasedModel:
    """Open what predicts. card: if it was read before."""
    card = card or load_card(version, artifacts)
    assert version.model_sha is not None
    return ReleasedModel(version.number, card, _weights(artifacts.arrays(version.model_sha), card))


def load_card(version: Version, artifacts: Artifacts) -> Card:
    assert version.card_sha is not None
    return Card.from_json(artifacts.json(version.card_sha))


def open_model(
    version: Version,
    artifacts: Artifacts,
    layout: Layout,
    engine: str | MakeEngine | None = None,
) -> Model:
    """Open a version that has a model, with its rows. engine: who holds them."""
    assert version.generation is not None
    assert version.model_sha is not None
    dataset = Dataset(layout.generation(version.generation))
    card = load_card(version, artifacts)
    arrays = artifacts.arrays(version.model_sha)
    _weights(arrays, card)
    if version.statistics_sha is not None:
        arrays |= artifacts.arrays(version.statistics_sha)
    if dataset.width != card.encoding.width or dataset.sparse != card.encoding.sparse:
        raise Damaged("the rows and the model card of this workspace do not belong together")
    of_label, live = class_codes(dataset, card.classes), dataset.live
    data = engine_of(dataset, card, of_label, live, engine)
    method = card.make_method()
    try:
        state = State.from_arrays(card.method, arrays)
    except (KeyError, ValueError) as error:
        raise Damaged(f"the model's file has no valid entry {error}") from None
    promise = card.promise
    releases = None if promise is None else Releases.open(promise, method.settings, data)
    if state.n != data.n_remaining:
        raise Damaged(f"the model stands for {state.n:,} rows, but {data.n_remaining:,} are left")
    return Model(
        version_id=version.id,
        dataset=dataset,
        card=card,
        method=method,
        baseline=Baseline.of(version.baseline),
        data=data,
        state=method.recentred(state, data),  # if the file is from before centres were kept
        initially_correct=arrays["initial_hits"] != 0,
        live=live,
        class_of_label=of_label,
        releases=releases,
    )


def _weights(arrays: Mapping[str, np.ndarray], card: Card) -> np.ndarray:
    weights = arrays.get("weights")
    if weights is None or weights.shape != (card.k, card.d) or not np.isfinite(weights).all():
        raise Damaged("the model's file does not hold the weights its card describes")
    return weights


def load_kernels(method: Method, data: Engine) -> None:
    """Compile or load what a method will call: train, prepare, unlearn and predict once on a few
    rows of the same kind as `data`'s."""
    of_method = (method.name, method.solver, method.refine, method.settings.sigma > 0)
    key = of_method, data.compiled_for
    if key in _warmed:
        return
    rng, few = np.random.default_rng(0), data.miniature(48)
    rows = few.take(np.arange(48))
    state = method.prepare(method.train(few, rng), few)
    for gone in (np.array([0]), np.arange(1, 10)):
        state = method.unlearn(state, few, gone, rng)
        few.forget(gone)
        correct(state.weights, rows)
    _warmed.add(key)
