"""How much each row counts: its sample weight times the weight of its class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unfit.core.class_weights import (
    HEAVIEST,
    LIGHTEST,
    balanced_weights,
    named_weights,
    usable,
)
from unfit.selection import some


def checked_sample_weight(sample_weight: ArrayLike | None, n: int) -> np.ndarray | None:
    """The weights of n rows as numbers (n,), or a ValueError that names the row and the remedy."""
    if sample_weight is None:
        return None
    try:
        found = np.asarray(sample_weight)
        if found.dtype.kind == "c":
            raise TypeError
        weights = np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold real numbers, one for each row") from None
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must hold one number for each of the {n} rows of X; it has the shape "
            f"{weights.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"sample_weight must be finite and not negative; row {first} has {weights[first]:g}: "
            "give it 0, or leave the row out"
        )
    if not weights.any():
        raise ValueError("all sample weights are zero, so no row counts; give some row more")
    return weights


def checked_class_weight(
    class_weight: Mapping[Any, float] | str | None,
    classes: np.ndarray,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
) -> np.ndarray:
    """The weight of each class, (classes,).

    "balanced": total weight / (number of classes x weight of the class), as in scikit-learn, so
    that every class weighs the same.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        return balanced_weights(np.bincount(codes, weights=sample_weight, minlength=len(classes)))
    assert isinstance(class_weight, Mapping)
    return named_weights(class_weight, classes.tolist())


def require_every_class(
    classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None
) -> None:
    """A ValueError where all rows of a class have weight zero: such rows count as absent."""
    if sample_weight is None:
        return
    counted = np.bincount(codes[sample_weight > 0], minlength=len(classes))
    if (counted == 0).any():
        raise ValueError(
            f"every row of class {some(classes[counted == 0])} has sample weight zero; leave these "
            "rows out, or give one of them a weight"
        )


def row_weights(
    sample_weight: np.ndarray | None, class_weight: np.ndarray, codes: np.ndarray
) -> np.ndarray | None:
    """The product of both for every row, (n,); None where that is 1 for all. A ValueError where it
    is too small or too large to compute with."""
    if (class_weight == 1).all():
        weights = sample_weight
    elif sample_weight is None:
        weights = class_weight[codes]
    else:
        with np.errstate(over="ignore", under="ignore"):
            weights = sample_weight * class_weight[codes]
    if weights is not None:
        counts = np.ones(len(weights), np.bool_) if sample_weight is None else sample_weight > 0
        _require_usable(weights, counts)
    return None if weights is None or (weights == 1).all() else weights


def _require_usable(weights: np.ndarray, counts: np.ndarray) -> None:
    wrong = np.flatnonzero(counts & ~usable(weights))
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"a row's weight, its sample_weight times that of its class, must be 0 or between "
            f"{LIGHTEST:g} and {HEAVIEST:g}; row {first} has {weights[first]:g}: multiply all "
            "weights by one number, or give it 0"
        )
