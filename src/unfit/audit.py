"""The audit of an estimator: retrain independently, compare, say what was found.

May know methods and engines. Returns facts; decides nothing but the verdict against a threshold.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.metrics import accuracy, accuracy_disparity, accuracy_error
from unfit.core.objective import Rows, margins
from unfit.engines.base import Engine
from unfit.methods.base import Method, State


@dataclass(frozen=True)
class Audit:
    """What an independent retraining says of the updated model. Percentages are SAPE."""

    n_remaining: int
    n_deleted: int
    accuracy_updated: float
    accuracy_retrained: float
    acc_err: float
    deleted_accuracy_updated: float | None
    deleted_accuracy_retrained: float | None
    acc_dis: float | None
    acc_dis_spread: float | None
    weight_distance: float
    predictions_differ: float
    residual: float
    threshold: float
    draws: int
    disparities: tuple[float, ...] = ()  # AccDis of each draw

    @property
    def passed(self) -> bool:
        """Whether the disparity on the deleted rows is within the threshold."""
        return self.acc_dis is None or self.acc_dis <= self.threshold

    @property
    def verdict(self) -> str:
        if self.acc_dis is None and self.n_deleted == 0:
            return "nothing was deleted: there is nothing to have forgotten"
        if self.acc_dis is None:
            return "AccDis was not measured: the deleted rows are not at hand"
        if self.passed:
            return f"forgotten: AccDis {self.acc_dis:.3g} % is within {self.threshold:g} %"
        return f"retrain: AccDis {self.acc_dis:.3g} % is over {self.threshold:g} %"

    def __str__(self) -> str:
        def percent(value: float | None) -> str:
            return "-" if value is None else f"{value:.4f} %"

        def share(value: float | None) -> str:
            return "-" if value is None else f"{value:.4f}"

        spread = "" if self.acc_dis_spread is None else f" +- {self.acc_dis_spread:.4f}"
        lines = [
            ("rows", f"{self.n_remaining:,} remain, {self.n_deleted:,} were deleted"),
            ("test accuracy", f"{share(self.accuracy_updated)} "
                              f"(retrained {share(self.accuracy_retrained)})"),
            ("on deleted rows", f"{share(self.deleted_accuracy_updated)} "
                                f"(retrained {share(self.deleted_accuracy_retrained)})"),
            ("AccErr", percent(self.acc_err)),
            ("AccDis", percent(self.acc_dis) + spread),
            ("weight distance", f"{self.weight_distance:.3e} relative to the retrained model"),
            ("predictions differ", f"{100 * self.predictions_differ:.3f} % of test rows"),
            ("residual", f"{self.residual:.3e} |gradient sum| per row"),
            ("verdict", self.verdict),
        ]  # fmt: skip
        return "\n".join(f"{name:<19}{value}" for name, value in lines)


def compare(
    method: Method,
    state: State,
    data: Engine,
    test: Rows | None,
    deleted: Rows,
    n_deleted: int,
    threshold: float,
    draws: int,
    rng: np.random.Generator,
) -> Audit:
    """Audit `state` against retrainings, with noise of their own, of the rows that remain.

    test: by default the remaining rows. deleted: those of the n_deleted rows that are at hand.
    """
    noiseless = method.optimum(data, rng)
    retrained = [method.train(data, rng).weights for _ in range(draws)] if draws > 1 else []
    if not retrained:
        retrained = [noiseless if method.settings.sigma == 0 else method.train(data, rng).weights]
    if test is None:
        test = data.take(np.flatnonzero(data.remaining))
    updated_test = predicted(test.X, state.weights)
    noiseless_test = predicted(test.X, noiseless)
    accuracies = accuracy(updated_test, test.codes), accuracy(noiseless_test, test.codes)
    deleted_updated = deleted_retrained = acc_dis = spread = None
    disparities: list[float] = []
    if len(deleted):
        deleted_updated = accuracy(predicted(deleted.X, state.weights), deleted.codes)
        each = [accuracy(predicted(deleted.X, W), deleted.codes) for W in retrained]
        disparities = [accuracy_disparity(one, deleted_updated) for one in each]
        deleted_retrained, acc_dis = float(np.mean(each)), float(np.mean(disparities))
        spread = float(np.std(disparities)) if draws > 1 else None
    gradient = data.gradient_sum(state.weights) + method.settings.l2 * state.n * state.weights
    if state.tilt is not None:
        gradient = gradient + state.tilt
    return Audit(
        n_remaining=data.n_remaining,
        n_deleted=n_deleted,
        accuracy_updated=accuracies[0],
        accuracy_retrained=accuracies[1],
        acc_err=accuracy_error(accuracies[1], accuracies[0]),
        deleted_accuracy_updated=deleted_updated,
        deleted_accuracy_retrained=deleted_retrained,
        acc_dis=acc_dis,
        acc_dis_spread=spread,
        weight_distance=float(
            np.linalg.norm(state.weights - retrained[0]) / np.linalg.norm(retrained[0])
        ),
        predictions_differ=float(np.mean(updated_test != noiseless_test)),
        residual=float(np.linalg.norm(gradient) / state.n),
        threshold=threshold,
        draws=draws,
        disparities=tuple(disparities),
    )


def predicted(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Class codes."""
    scores = margins(X, W)
    codes = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return codes.astype(np.int64)
