"""The audit of a fitted classifier: an independent retraining, and attacks on the release."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d, validate_data

from unfit.audit import Attack, Audit, Claim, Effort, Question, attack, compare
from unfit.certify import ReleaseTest
from unfit.certify.shadow_models import SPLITS, TARGETS, Size
from unfit.core.objective import Rows
from unfit.core.sparse_rows import check_form, make_rows
from unfit.estimator.fitted import FittedModel
from unfit.methods import METHODS, Method, State
from unfit.progress import ProgressCallback
from unfit.selection import some


class AuditedModel(FittedModel):
    """A fitted model that can be compared with a retraining of its own."""

    delta: float
    noise: float

    def audit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        threshold: float = 1.0,
        draws: int | None = None,
        random_state: int | None = None,
        attack: bool = False,
        splits: int = SPLITS,
        targets: int = TARGETS,
        progress: ProgressCallback | None = None,
    ) -> Audit:
        """Retrain independently on the remaining rows and compare; the model does not change.

        X, y: test rows; by default the remaining training rows. threshold: the AccDis (in percent)
        and the mean difference of probabilities (in points) up to which the verdict can be
        "forgotten"; it rests on the weights first. draws: retrainings with fresh noise for AccDis
        (by default 5 if sigma > 0, else 1).

        attack: also try to tell releases from those of a retraining, of this model and of models
        trained on so many random halves of the rows (splits), from each of which the most
        influential rows (targets) are unlearned; the result is `attack` of what is returned.
        progress: called as progress("shadow models", done, splits).
        """
        self._require_rows("audit")
        if (X is None) != (y is None):
            raise ValueError("audit needs both X and y, or neither")
        if not (isinstance(threshold, Real) and threshold >= 0):
            raise ValueError(f"threshold must be >= 0, got {threshold!r}")
        if draws is not None:
            _require_count("draws", draws, 1)
        _require_count("splits", splits, 1)
        _require_count("targets", targets, 1)
        effort = Effort(size=Size(splits, targets)) if attack else None
        test = self._remaining_rows() if X is None else self._test_rows(X, y)
        rng = np.random.default_rng(random_state)
        made = compare(self._question(test), threshold=threshold, draws=draws, rng=rng)
        made = replace(made, measured_on="test" if X is not None else "training")
        if effort is None:
            return made
        return made.with_attack(self._attacked(test, effort, rng, progress))

    def _remaining_rows(self) -> Rows:
        return self._data.take(np.flatnonzero(self._data.remaining))

    def _test_rows(self, X: ArrayLike, y: ArrayLike | None) -> Rows:
        check_form(X)
        X_test = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        labels = column_or_1d(y)
        if len(labels) != X_test.shape[0]:
            raise ValueError(f"X has {X_test.shape[0]} rows but y has {len(labels)}")
        codes = _codes_of(labels, self.classes_)
        return make_rows(X_test, codes, self._data.intercept, self.loss)

    def _question(self, test: Rows) -> Question:
        method, state = self._fitted, self._state
        if self._releases is not None:  # publishes as RETRAIN does: the centre and plain noise
            settings = method.settings.without_options(solver="auto", sigma=self.noise)
            method = METHODS["retrain"](settings)
            state = State(method.name, state.weights, state.n, kept_centre=state.centre)
        return self._asked(method, state, test)

    def _asked(self, method: Method, state: State, test: Rows) -> Question:
        forgotten = ~self._data.remaining
        gone = self._data.take(np.flatnonzero(forgotten & ~self._data.erased))
        return Question(method, state, self._data, test, gone, int(np.count_nonzero(forgotten)))

    def _attacked(
        self,
        test: Rows,
        effort: Effort,
        rng: np.random.Generator,
        progress: ProgressCallback | None,
    ) -> Attack:
        claim = None
        if self._releases is not None:
            certifier = self._releases.certifier
            claim = Claim(certifier.promise, certifier.release)
        asked = self._asked(self._fitted, self._state, test)
        return attack(
            asked, claim, effort=effort, rng=rng, delta=float(self.delta), progress=progress
        )

    def attack(self, *, draws: int = 10_000) -> ReleaseTest:
        """Try to refute the certificate: can releases be told from those of a retraining?

        Retrains independently, draws so many releases of each, and says what epsilon and mu must be
        at least; a model that never unlearned is the control. The model does not change.
        """
        self._require_rows("attack")
        if self._releases is None:
            raise ValueError("there is no claim to refute: fit with epsilon= to get a certificate")
        _require_count("draws", draws, 100)
        return self._releases.attack(self._state, self._data, draws)


def _codes_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class codes of labels, -1 for one that no class has; a ValueError where none is known or
    they are of another kind than those of fit."""
    missing = _missing(labels)
    if len(missing):
        raise ValueError(f"row {missing[0]} of y has no label; leave such rows out")
    if _has_texts(labels) != _has_texts(classes):
        kinds = ("texts", "numbers") if _has_texts(labels) else ("numbers", "texts")
        raise ValueError(
            f"y holds {kinds[0]} ({some(labels[:3])}), and the classes of fit are {kinds[1]} "
            f"({some(classes)})"
        )
    codes = np.searchsorted(classes, labels).clip(0, len(classes) - 1)
    codes = np.where(classes[codes] == labels, codes, -1)
    if (codes < 0).all():
        raise ValueError(
            f"y holds none of the classes of fit, which are {some(classes)}, but "
            f"{some(np.unique(labels))}"
        )
    return codes


def _missing(labels: np.ndarray) -> np.ndarray:
    """Where there is no label."""
    if labels.dtype.kind == "f":
        return np.flatnonzero(np.isnan(labels))
    if labels.dtype != object:
        return np.zeros(0, np.intp)
    pandas_or_none = [label is None or type(label).__name__ == "NAType" for label in labels]
    nan = [isinstance(label, float) and label != label for label in labels]
    return np.flatnonzero(np.array(pandas_or_none) | np.array(nan))


def _has_texts(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "UT" or any(isinstance(label, str) for label in labels[:1])


def _require_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if int(value) < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
