"""The paper's measures: symmetric percentage error, and accuracy compared by it. Pure."""

import numpy as np


def sape(a: float, b: float) -> float:
    """SAPE(a, b) = 100 |a - b| / (|a| + |b|), and 0 for two zeros."""
    total = abs(a) + abs(b)
    return 0.0 if total == 0 else 100.0 * abs(a - b) / total


def accuracy(predicted: np.ndarray, actual: np.ndarray) -> float:
    """The share of rows predicted right."""
    return float(np.mean(predicted == actual))


def accuracy_error(retrained_test_accuracy: float, updated_test_accuracy: float) -> float:
    """AccErr: effectiveness lost on test rows, against retraining without noise."""
    return sape(retrained_test_accuracy, updated_test_accuracy)


def accuracy_disparity(retrained_deleted_accuracy: float, updated_deleted_accuracy: float) -> float:
    """AccDis: accuracy kept on the deleted rows, against retraining with the same sigma."""
    return sape(retrained_deleted_accuracy, updated_deleted_accuracy)
