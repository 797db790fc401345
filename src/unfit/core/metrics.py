"""Measures of predictions, and the paper's symmetric percentage errors. Pure.

Class codes are 0 .. k - 1; a row with code -1 has a label that the model does not know: it counts
as predicted wrong, and is left out where a probability of its label is asked for.
"""

from dataclasses import dataclass

import numpy as np


def sape(a: float, b: float) -> float:
    """SAPE(a, b) = 100 |a - b| / (|a| + |b|), and 0 for two zeros."""
    total = abs(a) + abs(b)
    return 0.0 if total == 0 else 100.0 * abs(a - b) / total


def accuracy(predicted: np.ndarray, actual: np.ndarray) -> float:
    """The share of rows predicted right."""
    return float(np.mean(predicted == actual))


def accuracy_error(retrained_test_accuracy: float, updated_test_accuracy: float) -> float:
    """AccErr: how far effectiveness on test rows is from that of retraining without noise."""
    return sape(retrained_test_accuracy, updated_test_accuracy)


def accuracy_disparity(retrained_deleted_accuracy: float, updated_deleted_accuracy: float) -> float:
    """AccDis: how far accuracy on deleted rows is from that of retraining with the same sigma."""
    return sape(retrained_deleted_accuracy, updated_deleted_accuracy)


def majority_rate(codes: np.ndarray) -> float | None:
    """The share of the most frequent class: the accuracy of always naming it."""
    known = codes[codes >= 0]
    return float(np.bincount(known).max() / len(codes)) if len(known) else None


def log_loss(probabilities: np.ndarray, codes: np.ndarray) -> float | None:
    """The mean of -log p(label); p is kept away from 0 and 1 by float64's precision."""
    known = np.flatnonzero(codes >= 0)
    if len(known) == 0:
        return None
    least = np.finfo(np.float64).eps
    own = probabilities[known, codes[known]].astype(np.float64)
    return float(-np.mean(np.log(own.clip(least, 1 - least))))


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """The chance that a positive row scores above a negative one, ties counting half."""
    n, p = len(positive), int(np.count_nonzero(positive))
    if p == 0 or p == n:
        return None
    above, others = np.sort(scores[positive]), np.sort(scores[~positive])
    # Counts of negative rows below each positive one, and not above it.
    below = np.searchsorted(others, above, side="left")
    tied = above[others[np.minimum(below, n - p - 1)] == above]
    equal = np.searchsorted(others, tied, side="right") - np.searchsorted(others, tied, side="left")
    return float((below.sum() + equal.sum() / 2) / (p * (n - p)))


def auc(probabilities: np.ndarray, codes: np.ndarray) -> float | None:
    """The area under the curve; beyond two classes the mean of each class against the rest.

    Classes that no row has, or that every row has, are left out of the mean.
    """
    known = codes >= 0
    if not known.all():
        probabilities, codes = probabilities[known], codes[known]
    k = probabilities.shape[1]
    classes = [1] if k == 2 else range(k)
    each = [area_under_curve(probabilities[:, c], codes == c) for c in classes]
    found = [area for area in each if area is not None]
    return float(np.mean(found)) if found else None


@dataclass(frozen=True)
class Quality:
    """How good some predictions are: accuracy beside the majority rate, log-loss, AUC.

    None where it cannot be said: there are no rows, they are of one class, or (log-loss) the model
    estimates no probabilities.
    """

    rows: int
    accuracy: float | None
    majority: float | None
    log_loss: float | None
    auc: float | None


def quality(probabilities: np.ndarray, codes: np.ndarray, *, probabilistic: bool = True) -> Quality:
    """probabilities (n, classes), as they are shown to people; codes (n,).

    probabilistic: whether they estimate probabilities; of mere scores there is no log-loss.
    """
    if len(codes) == 0:
        return Quality(rows=0, accuracy=None, majority=None, log_loss=None, auc=None)
    # Of two equal ones the first, as margins of 0 do.
    if probabilities.shape[1] == 2:
        predicted = (probabilities[:, 1] > probabilities[:, 0]).astype(np.int64)
    else:
        predicted = probabilities.argmax(axis=1)
    return Quality(
        rows=len(codes),
        accuracy=accuracy(predicted, codes),
        majority=majority_rate(codes),
        log_loss=log_loss(probabilities, codes) if probabilistic else None,
        auc=auc(probabilities, codes),
    )
