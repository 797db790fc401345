"""A version in memory: its rows, its model, and what both need to unlearn and to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unfit.core.objective import Rows, margins, problems, sigmoid
from unfit.data.constants import Sums, explained
from unfit.data.dataset import Dataset
from unfit.data.encoding import Encoding
from unfit.engines.cpu import CpuEngine
from unfit.errors import Damaged
from unfit.lifecycle.pipeline import Baseline
from unfit.methods import METHODS, Method, Settings, State
from unfit.store.artifacts import Artifacts
from unfit.store.records import Version

if TYPE_CHECKING:
    from unfit.workspace.constants import Changes

CARD_FORMAT = 2  # 1: constants were not rounded
_STATISTICS = ("gradient_sum", "hessian_sum", "l2")


@dataclass(frozen=True)
class Card:
    """What a model means: its method and settings, its classes, the encoding of its rows."""

    method: str
    settings: Settings
    fit_intercept: bool
    classes: tuple[str, ...]
    label: str
    encoding: Encoding

    @property
    def k(self) -> int:
        return problems(len(self.classes))

    @property
    def d(self) -> int:
        return self.encoding.width + self.fit_intercept

    def make_method(self) -> Method:
        return METHODS[self.method](self.settings, refine=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": CARD_FORMAT, "method": self.method, "settings": asdict(self.settings),
            "fit_intercept": self.fit_intercept, "classes": list(self.classes),
            "label": self.label, "encoding": self.encoding.to_json(),
            "constants": asdict(explained(self.encoding)),
        }  # fmt: skip

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Card":
        if content.get("format") not in (1, CARD_FORMAT):
            raise Damaged("the model card was written by another version of unfit")
        try:
            return cls(
                content["method"], Settings(**content["settings"]), content["fit_intercept"],
                tuple(content["classes"]), content["label"],
                Encoding.from_json(content["encoding"]),
            )  # fmt: skip
        except (KeyError, TypeError) as error:
            raise Damaged(f"the model card lacks or garbles {error}") from None


@dataclass(frozen=True)
class ReleasedModel:
    """Weights and a card: enough to predict."""

    version: int
    card: Card
    weights: np.ndarray

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (n, classes).

        With more than two classes one-vs-rest: sigmoids of separate models scaled to sum 1, which
        are not those of a softmax model.
        """
        p = sigmoid(margins(X, self.weights).astype(np.float64))
        if len(self.card.classes) == 2:
            return np.column_stack([1 - p[:, 0], p[:, 0]])
        p = np.maximum(p, np.finfo(np.float64).tiny)
        return np.asarray(p / p.sum(axis=1, keepdims=True))


@dataclass
class Model:
    """The employed version with its rows. `data`, `state`, `live` and `sums` move with each
    erasure."""

    version: Version
    dataset: Dataset
    card: Card
    method: Method
    baseline: Baseline
    data: CpuEngine
    state: State
    initially_correct: np.ndarray  # over the held-out rows: right in the baseline's model
    live: np.ndarray  # over all rows
    class_of_label: np.ndarray
    sums: Sums | None = None  # of the training rows, for the constants; made when needed
    foreseen: "tuple[np.ndarray, Changes] | None" = None  # if these positions leave

    def test_positions(self, without: np.ndarray) -> np.ndarray:
        """Held-out rows that stay when some positions leave, counted from the first held-out."""
        live = self.live.copy()
        live[without] = False
        return np.flatnonzero(live[self.dataset.n_train :])

    def test_rows(self) -> Rows:
        """All held-out rows; erased ones are zeros."""
        return held_out(self.dataset, self.class_of_label, self.card.fit_intercept)


def class_codes(dataset: Dataset, classes: Sequence[str]) -> np.ndarray:
    """label code -> class code, -1 where the model does not know the label."""
    place = {name: i for i, name in enumerate(classes)}
    known = [-1 if t is None else place.get(t, -1) for t in dataset.label_texts]
    return np.array(known, np.int32)


def held_out(dataset: Dataset, class_of_label: np.ndarray, intercept: bool) -> Rows:
    """The test rows, where they lie."""
    n = dataset.n_train
    return Rows(dataset.rows()[n:], class_of_label[dataset["labels"][n:]], intercept)


def engine_of(
    dataset: Dataset, class_of_label: np.ndarray, n_classes: int, fit_intercept: bool,
    live: np.ndarray,
) -> CpuEngine:  # fmt: skip
    n = dataset.n_train
    codes = class_of_label[dataset["labels"][:n]]
    data = CpuEngine(dataset.rows()[:n], codes, n_classes, fit_intercept)
    gone = np.flatnonzero(~live[:n])
    if len(gone):
        data.forget(gone)
    return data


def model_arrays(state: State, initially_correct: np.ndarray) -> dict[str, np.ndarray]:
    """What goes into a model's file; statistics have one of their own."""
    arrays = {k: v for k, v in state.to_arrays().items() if k not in _STATISTICS}
    return arrays | {"initial_hits": initially_correct.astype(np.uint8)}


def statistics_arrays(state: State) -> dict[str, np.ndarray] | None:
    if state.statistics is None:
        return None
    return {k: v for k, v in state.to_arrays().items() if k in _STATISTICS}


def open_released_model(
    version: Version, artifacts: Artifacts, card: Card | None = None
) -> ReleasedModel:
    """card: if it is at hand."""
    card = card or load_card(version, artifacts)
    assert version.model_sha is not None
    return ReleasedModel(version.number, card, _weights(artifacts.arrays(version.model_sha), card))


def load_card(version: Version, artifacts: Artifacts) -> Card:
    assert version.card_sha is not None
    return Card.from_json(artifacts.json(version.card_sha))


def open_model(version: Version, artifacts: Artifacts, folder: Path) -> Model:
    """Everything of a version that has a model."""
    assert version.generation is not None
    assert version.model_sha is not None
    dataset = Dataset(folder / version.generation)
    card = load_card(version, artifacts)
    arrays = artifacts.arrays(version.model_sha)
    _weights(arrays, card)
    if version.statistics_sha is not None:
        arrays |= artifacts.arrays(version.statistics_sha)
    if dataset["X"].shape[1] != card.encoding.width:
        raise Damaged("the rows and the model card of this workspace do not belong together")
    live = dataset.live
    of_label = class_codes(dataset, card.classes)
    data = engine_of(dataset, of_label, len(card.classes), card.fit_intercept, live)
    method = card.make_method()
    try:
        state = State.from_arrays(card.method, arrays)
    except (KeyError, ValueError) as error:
        raise Damaged(f"the model's file lacks or garbles {error}") from None
    if state.n != data.n_remaining:
        raise Damaged(f"the model stands for {state.n:,} rows, but {data.n_remaining:,} are left")
    state = method.recentred(state, data)  # if the file is from before centres were kept
    initially_correct = arrays["initial_hits"] != 0
    baseline = Baseline.of(version.baseline)
    return Model(
        version, dataset, card, method, baseline, data, state, initially_correct, live, of_label
    )


def _weights(arrays: Mapping[str, np.ndarray], card: Card) -> np.ndarray:
    weights = arrays.get("weights")
    if weights is None or weights.shape != (card.k, card.d) or not np.isfinite(weights).all():
        raise Damaged("the model's file does not hold the weights its card describes")
    return weights
