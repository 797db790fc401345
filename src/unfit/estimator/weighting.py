"""How much each row counts: its sample weight times the weight of its class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unfit.core.class_weights import balanced_weights, named_weights
from unfit.selection import some

LEAST, MOST = 1e-100, 1e100  # of a weight: squares and sums of such numbers are float64's


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
    _require_range(weights, "the sample weight of row {}")
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
    weights = named_weights(class_weight, classes.tolist())
    _require_range(weights, "the weight of class {}", classes)
    return weights


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
    """The product of both for every row, (n,); None where that is 1 for all."""
    if (class_weight == 1).all():
        weights = sample_weight
    elif sample_weight is None:
        weights = class_weight[codes]
    else:
        weights = sample_weight * class_weight[codes]
        _require_range(weights, "the sample weight of row {} times that of its class")
    return None if weights is None or (weights == 1).all() else weights


def _require_range(weights: np.ndarray, what: str, names: np.ndarray | None = None) -> None:
    """A ValueError where a weight that is not 0 is beyond what sums can hold. what: of the weight
    with a name, which is its place where there are no names."""
    wrong = np.flatnonzero((weights != 0) & ~((weights >= LEAST) & (weights <= MOST)))
    if len(wrong):
        first = int(wrong[0])
        name = first if names is None else names.tolist()[first]
        raise ValueError(
            f"{what.format(repr(name))} is {weights[first]:g}, and a weight that is not 0 must lie "
            f"between {LEAST:g} and {MOST:g}: divide all weights by the same number"
        )
