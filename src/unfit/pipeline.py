"""scikit-learn's Pipeline with steps that forget, too.

A scaler fitted with a person in it keeps the person: mean before times n, less mean after times
n - 1, is their value. So `unlearn` fits every step before the classifier again, on the raw rows
that remain. May know the estimator.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn import get_config
from sklearn import pipeline as theirs
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from unfit.audit import Audit
from unfit.audit.verdict import Outcome
from unfit.core.sparse_rows import make_rows
from unfit.engines.base import Engine, make_engine
from unfit.errors import NoRows
from unfit.estimator import LinearClassifier
from unfit.selection import Labels, positions, without_unused

SAME = 1e-9  # relative: two fits of a step on the same rows agree to rounding


@dataclass(frozen=True)
class RawRows:
    """Rows as they were given to fit, or what is left of them: row i is at positions[i] of n.

    weights: how much each counts for the classifier; None where all count 1.
    """

    X: Any
    y: Any
    positions: np.ndarray
    n: int
    weights: np.ndarray | None = None

    def of_rows(self, mask: np.ndarray) -> "RawRows":
        """Those of them where a mask over all n rows is True."""
        keep = np.flatnonzero(mask[self.positions])
        if len(keep) == len(self.positions):
            return self
        return RawRows(
            X=without_unused(_safe_indexing(self.X, keep)),
            y=without_unused(_safe_indexing(self.y, keep)),
            positions=self.positions[keep],
            n=self.n,
            weights=None if self.weights is None else self.weights[keep],
        )


@dataclass(frozen=True)
class PipelineAudit:
    """An audit of a whole pipeline: its classifier's, and which steps before it still remember."""

    classifier: Audit
    remembering: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        return "not forgotten" if self.remembering else self.classifier.outcome

    @property
    def passed(self) -> bool | None:
        """None where it cannot be told."""
        return False if self.remembering else self.classifier.passed

    @property
    def reason(self) -> str:
        if self.remembering:
            return (
                f"{', '.join(self.remembering)} would be another if fitted on the rows that "
                "remain; use the pipeline's unlearn, or fit it again"
            )
        return self.classifier.reason

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.reason}"

    def __getattr__(self, name: str) -> Any:
        """Everything else is as in the audit of the classifier."""
        if name.startswith("_") or name == "classifier":
            raise AttributeError(name)
        return getattr(self.classifier, name)

    def __str__(self) -> str:
        steps = ", ".join(self.remembering) or "none"
        lines = [line for line in str(self.classifier).splitlines() if line[:7] != "verdict"]
        lines += [f"{'steps that remember':<19} {steps}", f"{'verdict':<19}{self.verdict}"]
        return "\n".join(lines)


class Pipeline(theirs.Pipeline):  # type: ignore[misc]  # an untyped base
    """Steps and an unfit.LogisticRegression at the end, with `unlearn` for all of them.

    `unlearn(rows)` fits the steps before the classifier again, on the raw rows that remain. If they
    transform these rows as before, to the bit, the classifier unlearns as it would alone; otherwise
    it is trained anew on the newly transformed rows. So a request costs a fit of the steps, and a
    training whenever a constant changes: with StandardScaler at every request, with MaxNormScaler
    hardly ever, since its constant is rounded. Either way the whole pipeline is what fitting it on
    the remaining rows gives, as closely as the classifier's method does.

    The raw X and y of fit are kept, by reference. Pickles and copies hold the rows that remain and
    no others; `without_data()` gives a copy without rows. A step can hold rows of its own (a
    nearest neighbour imputer does), and then every copy has them: after `unlearn`, those that
    remain.

    `memory` must be None: a cache on disk would keep the forgotten. Sample weights go to the
    classifier alone: as `model__sample_weight`, by the name of the last step, or by scikit-learn's
    metadata routing. Other fit parameters are refused, since steps could not be fitted again with
    them.
    """

    steps: list[tuple[str, Any]]
    _raw: RawRows
    _labels: Labels | None

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Fit all steps, and keep X and y to forget from."""
        if self.memory is not None:
            raise ValueError("memory must be None: a cache on disk keeps rows that were forgotten")
        to_last = f"{self.steps[-1][0]}__sample_weight"
        routed = "sample_weight" in params and _routing()
        refused = sorted(set(params) - {to_last} - ({"sample_weight"} if routed else set()))
        if refused:
            raise ValueError(
                f"fit parameters {refused} cannot be used: unlearn fits the steps again; weights "
                f"go to the classifier as {to_last}"
            )
        if not isinstance(self.steps[-1][1], LinearClassifier):
            raise TypeError(
                "the last step must be an unfit.LogisticRegression, or another classifier of "
                "unfit, which can unlearn; got "
                f"{self.steps[-1][1]!r}"
            )
        if routed:
            _require_unweighted(self.steps[:-1])
        self._fit_all(X, y, params)
        n = _num_samples(X)
        weights = self._classifier._data.sample_weight
        self._raw, self._labels = RawRows(X, y, np.arange(n), n, weights), Labels.of(X, y)
        self._classifier._steps_forget = True
        return self

    def _fit_all(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        """As scikit-learn, which fits steps in place; where one fails, a pipeline that was fitted
        before is as it was. The classifier sees to that itself."""
        fitted = self.__sklearn_is_fitted__()
        before = [(name, deepcopy(step)) for name, step in self.steps[:-1]] if fitted else None
        try:
            super().fit(X, y, **params)
        except BaseException:
            if before is not None:
                self.steps = [*before, self.steps[-1]]
            raise

    def unlearn(self, rows: ArrayLike) -> Self:
        """Forget rows of the X of fit, in every step; `rows` as in LogisticRegression.unlearn.

        Errors name what is wrong with the request; then nothing has changed.
        """
        self._require_rows("unlearn")
        final = self._classifier
        deleted, _ = final._request(positions(rows, self._labels, final._data.remaining))
        if len(deleted) == 0:
            return self
        remaining = final._data.remaining.copy()
        remaining[deleted] = False
        left = self._raw.of_rows(remaining)
        before = [(name, _fresh(step)) for name, step in self.steps[:-1]]
        transformed = _fit_transform(before, left)
        if final._holds(transformed, remaining):
            final.unlearn(deleted)
        else:
            final._relearn(transformed, remaining)
        self.steps = [*before, self.steps[-1]]
        return self

    def prepare(self) -> Self:
        """Compute ahead what makes the next `unlearn` cheap; the model does not change."""
        self._require_rows("prepare")
        self._classifier.prepare()
        return self

    def audit(self, X: Any = None, y: Any = None, **options: Any) -> PipelineAudit:
        """Fit the whole pipeline again on the remaining raw rows, and compare; nothing changes.

        X, y: raw test rows. options: as in LogisticRegression.audit. The verdict is "not forgotten"
        where a step before the classifier differs from one fitted on what remains.
        """
        self._require_rows("audit")
        final = self._classifier
        remaining = self._raw.of_rows(final._data.remaining)
        remembering = _differing(self.steps[:-1], remaining)
        probe = object.__new__(type(final))
        probe.__dict__.update(final.__dict__)
        probe._data = self._engine(final)
        test = None if X is None else self._before(X)
        return PipelineAudit(probe.audit(test, y, **options), remembering)

    def _engine(self, final: LinearClassifier) -> Engine:
        """All raw rows at hand, forgotten ones included, as the present steps transform them."""
        at, n = self._raw.positions, self._raw.n
        X = self._before(self._raw.X)
        dtype = final._data.dtype
        X = X.astype(dtype) if issparse(X) else np.ascontiguousarray(X, dtype)
        codes = np.searchsorted(final.classes_, np.asarray(self._raw.y).ravel()).astype(np.int32)
        known = np.zeros(n, np.bool_)
        known[at] = True
        old = final._data
        rows = make_rows(X, codes, old.intercept, old.loss, self._raw.weights)
        data = make_engine(rows, len(final.classes_), places=known, name=old.made_by)
        data.forget(np.flatnonzero(known & ~final._data.remaining))
        return data

    def _before(self, X: Any) -> Any:
        """X as the classifier is given it."""
        for _, step in self.steps[:-1]:
            X = X if step in (None, "passthrough") else step.transform(X)
        return X

    @property
    def remaining_(self) -> np.ndarray:
        """Mask over the rows of fit: True where the row is in the model as it is now. A copy."""
        return self._classifier.remaining_

    @property
    def n_remaining_(self) -> int:
        """Rows the model stands for now."""
        return self._classifier.n_remaining_

    def without_data(self) -> Self:
        """A copy that predicts and has no rows, but for those a step holds itself."""
        check_is_fitted(self)
        bare = clone(self)
        last = (self.steps[-1][0], self._classifier.without_data())
        bare.steps = [*((name, deepcopy(step)) for name, step in self.steps[:-1]), last]
        made: Self = bare
        return made

    @property
    def _classifier(self) -> LinearClassifier:
        final: LinearClassifier = self.steps[-1][1]
        return final

    def _require_rows(self, verb: str) -> None:
        check_is_fitted(self)
        self._classifier._require_rows(verb)
        if not hasattr(self, "_raw"):
            raise NoRows(f"{verb} needs the raw rows of fit, and this pipeline has none")

    def __copy__(self) -> Self:
        """A copy of its own: two models never share the mask of what remains."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: of rows and labels those that remain."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_raw" in state:
            remaining = self._classifier._data.remaining
            state["_raw"] = self._raw.of_rows(remaining)
            state["_labels"] = None if self._labels is None else self._labels.of_rows(remaining)
        return state


def _routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _require_unweighted(steps: list[tuple[str, Any]]) -> None:
    """A ValueError where a step before the classifier asks for weights of its own."""
    for name, step in steps:
        asks = getattr(step, "_get_metadata_request", None)
        if asks is not None and asks().consumes("fit", {"sample_weight"}):
            raise ValueError(
                f"the step {name!r} asks for sample_weight, with which unlearn could not fit it "
                "again; set_fit_request(sample_weight=False) on it"
            )


def _fresh(step: Any) -> Any:
    return step if step in (None, "passthrough") else clone(step)


def _fit_transform(steps: list[tuple[str, Any]], rows: RawRows) -> Any:
    X = rows.X
    for _, step in steps:
        if step not in (None, "passthrough"):
            whole = hasattr(step, "fit_transform")
            X = step.fit_transform(X, rows.y) if whole else step.fit(X, rows.y).transform(X)
    return X


def _differing(steps: list[tuple[str, Any]], rows: RawRows) -> tuple[str, ...]:
    """The names of steps that, fitted on these rows, transform them otherwise than they do now.

    Each is given what the present steps before it make of the rows, so that it is named for its own
    memory and not for theirs.
    """
    found, X = [], rows.X
    for name, step in steps:
        if step in (None, "passthrough"):
            continue
        now = step.transform(X)
        again = clone(step).fit(X, rows.y).transform(X)
        if not _alike(now, again):
            found.append(name)
        X = now
    return tuple(found)


def _alike(one: Any, other: Any) -> bool:
    if issparse(one) or issparse(other):
        return issparse(one) and issparse(other) and _alike_where_stored(one, other)
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    scale = np.abs(b).max(axis=0, initial=0.0)
    return bool((np.abs(a - b) <= SAME * scale).all())


def _alike_where_stored(one: Any, other: Any) -> bool:
    """Of two sparse matrices: what differs is compared with the largest number of its column."""
    if one.shape != other.shape:
        return False
    apart = abs(one - other).tocoo()
    scale = abs(other).max(axis=0).toarray().ravel()
    return bool((apart.data <= SAME * scale[apart.col]).all())
