"""What a fitted classifier holds, and what of it is copied, pickled or handed out."""

import warnings
from copy import copy, deepcopy
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from unfit.certify import Certificate, Releases
from unfit.core.losses import LOGISTIC, Loss
from unfit.engines.base import Engine
from unfit.errors import NoRows
from unfit.fitted_steps import FittedStepWarning
from unfit.methods import Method, State
from unfit.methods.stream import Stream
from unfit.selection import Labels

_LEARNED = (
    "classes_",
    "class_weight_",
    "coef_",
    "intercept_",
    "n_features_in_",
    "feature_names_in_",
    "n_iter_",
)


class FittedModel:
    """The rows, the state and the method as `fit` found them."""

    loss: ClassVar[Loss] = LOGISTIC
    dtype: str
    _data: Engine
    _state: State
    _fitted: Method  # as `fit` found it: parameters set later wait for the next fit
    _releases: Releases | None = None  # of a certified model
    certificate_: Certificate | None
    _labels: Labels | None
    _class_counts: np.ndarray
    _rng: np.random.Generator
    _sign: str | None
    _steps_forget: bool
    classes_: np.ndarray
    class_weight_: np.ndarray
    n_iter_: int | None

    def without_data(self) -> Self:
        """A copy that predicts and holds no row: the released weights, the classes, the names.

        It cannot unlearn, prepare or audit: keep the original where rows may be kept. It has no
        random_state either, by which the noise could be drawn again.
        """
        check_is_fitted(self)
        bare: Self = clone(self).set_params(random_state=None)
        for name in _LEARNED:
            if hasattr(self, name):
                setattr(bare, name, copy(getattr(self, name)))
        bare._state = State(self._state.method, self._state.weights.copy(), self._state.n)
        return bare

    @property
    def remaining_(self) -> np.ndarray:
        """Mask over the rows of fit: True where the row is in the model as it is now. A copy."""
        self._require_rows("remaining_")
        mask = np.array(self._data.remaining)
        mask.flags.writeable = False
        return mask

    @property
    def n_remaining_(self) -> int:
        """Rows the model stands for now."""
        check_is_fitted(self)
        return self._state.n

    @property
    def _dtype(self) -> type[np.floating]:
        return np.float64 if self.dtype == "float64" else np.float32

    def _activate(self, state: State) -> None:
        self._state = state
        p = self._data.d - self._data.intercept
        self.coef_ = state.weights[:, :p].copy()
        if self._data.intercept:
            self.intercept_ = state.weights[:, p].copy()
        else:
            self.intercept_ = np.zeros(len(state.weights))

    def _require_rows(self, verb: str) -> None:
        if not hasattr(self, "_data"):
            check_is_fitted(self)
            raise NoRows(
                f"{verb} needs the rows of fit, and this copy has none (without_data()); use the "
                "model it was made from, or fit again"
            )
        if verb in ("unlearn", "audit") and self._sign is not None and not self._steps_forget:
            warnings.warn(
                f"the rows of fit look scaled by constants fitted to them ({self._sign}): such "
                "constants remember rows that are forgotten here, and no audit of the classifier "
                "sees it. unfit.Pipeline makes the steps before it forget, too; constants that are "
                "declared, not fitted, need not",
                FittedStepWarning,
                stacklevel=3,
            )

    def __copy__(self) -> Self:
        """A copy of its own: two models never share the mask of what remains."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: of rows and labels those that remain, and no statistics."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]  # a dict
        if "_data" in state:
            stream = None if self._state.stream is None else Stream()  # it goes on with new sums
            state["_state"] = replace(
                self._state,
                statistics=None,
                stale_inverse=None,
                spare=None,
                stream=stream,
                running_guide=None,
                foresight=None,
            )
            if self._releases is not None:
                state["_releases"] = self._releases.to_keep()
            if self._labels is not None:
                state["_labels"] = self._labels.of_rows(self._data.remaining)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A pickle from before a parameter existed has its default."""
        super().__setstate__(state)  # type: ignore[misc]  # scikit-learn's
        for name, parameter in signature(type(self)).parameters.items():
            self.__dict__.setdefault(name, parameter.default)
        if "classes_" in state:
            self.__dict__.setdefault("class_weight_", np.ones(len(self.classes_)))
            self.__dict__.setdefault("n_iter_", None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")
