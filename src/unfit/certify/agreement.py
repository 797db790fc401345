"""On which rows a retrained model is known to give the same label, without retraining.

A retraining's weights are within a of the centre, so its margin of a row x is within |x| a of the
centre's. With two classes the label is the sign of the margin, and certain where |margin| > |x| a.
With more it is the largest of k margins, and certain where the first is over |x| a sqrt(2) ahead of
the second, because two of the k errors, whose squares sum to a^2 at most, are at most a sqrt(2)
apart. What rounding can do to a margin, in the precision of the rows, is added to |x| a. Pure.
"""

import math

import numpy as np

from unfit.core.metrics import accuracy, accuracy_disparity
from unfit.core.objective import Rows
from unfit.core.predictions import predict


def certain(rows: Rows, centre: np.ndarray, distance: float) -> np.ndarray:
    """Mask of the rows whose label under every model within `distance` of the centre is the
    centre's."""
    # Of a sum in the precision of the rows: of two labels and of the margin that is compared here.
    once = (rows.d + 1) * float(np.finfo(rows.X.dtype).eps)
    squares = rows.rough_squares().astype(np.float64)
    lengths = np.sqrt(squares * (1 + 2 * once) + rows.intercept)
    reach = lengths * (distance + 3 * once * float(np.linalg.norm(centre, axis=1).max()))
    found = rows.margins(centre).astype(np.float64)
    if len(centre) == 1:
        return np.asarray(np.abs(found[:, 0]) > reach)
    ordered = np.sort(found, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2] > math.sqrt(2) * reach)


def agreement(
    rows: Rows, released: np.ndarray, centre: np.ndarray, distance: float
) -> float | None:
    """The share of rows that are certain to get from the released weights the label that a
    retraining, before noise, gives them; four digits, rounded down. None without rows."""
    if len(rows) == 0:
        return None
    same = predict(rows.X, released) == predict(rows.X, centre)
    agreed = int(np.count_nonzero(same & certain(rows, centre, distance)))
    return math.floor(10_000 * agreed / len(rows)) / 10_000


def largest_disparity(rows: Rows, centre: np.ndarray, distance: float) -> float | None:
    """AccDis of the centre and a retraining on some rows, in percent: the largest it can be.

    Where every label is certain it is 0, exactly. None without rows.
    """
    if len(rows) == 0:
        return None
    labels = predict(rows.X, centre)
    right, sure = labels == rows.codes, certain(rows, centre, distance)
    ours = accuracy(labels, rows.codes)
    fewest = np.count_nonzero(right & sure) / len(rows)
    most = np.count_nonzero(right | ~sure) / len(rows)
    return float(max(accuracy_disparity(float(n), ours) for n in (fewest, most)))
