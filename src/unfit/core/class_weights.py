"""Weights of classes: given by name, or such that every class weighs the same."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

# Sums are float64's, but some guides to a solution are float32's, whose range is 1e-38 to 1e38.
LIGHTEST, HEAVIEST = 1e-30, 1e30


def balanced_weights(totals: np.ndarray) -> np.ndarray:
    """total / (number of classes x total of the class), from the weight of each class."""
    return np.asarray(totals.sum() / (len(totals) * totals))


def named_weights(given: Mapping[Any, float], classes: list[Any]) -> np.ndarray:
    """Those of the classes in their order, 1 for one without a name; or a ValueError."""
    unknown = [name for name in given if name not in classes]
    if unknown:
        raise ValueError(
            f"class_weight names {_some(unknown)}, which y does not hold; its classes are "
            f"{_some(classes)}"
        )
    for name, weight in given.items():
        if not isinstance(weight, Real):
            raise ValueError(f"class_weight must hold numbers; class {name!r} has {weight!r}")
    found = np.array([float(given.get(name, 1.0)) for name in classes])
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
    if len(wrong):
        raise ValueError(
            f"class_weight must be finite and above 0; class {classes[wrong[0]]!r} has "
            f"{found[wrong[0]]:g}: leave its rows out to do without it"
        )
    extreme = np.flatnonzero(~usable(found))
    if len(extreme):
        raise ValueError(
            f"class_weight must be between {LIGHTEST:g} and {HEAVIEST:g}; class "
            f"{classes[extreme[0]]!r} has {found[extreme[0]]:g}: multiply all weights by one number"
        )
    return found


def usable(weights: np.ndarray) -> np.ndarray:
    """Which weights above 0 are neither too small nor too large to compute with."""
    return (weights >= LIGHTEST) & (weights <= HEAVIEST)


def _some(names: list[Any]) -> str:
    return f"{names[:10]}{f' and {len(names) - 10} more' if len(names) > 10 else ''}"
