"""What `fit` warns of: steps that are too long for the rows, a replay that may go astray, and
training that did not converge.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unfit.engines.base import Engine
from unfit.methods.base import Method, Training
from unfit.step_size import UnscaledRowsWarning, overshooting


class UnboundedReplayWarning(UserWarning):
    """DELTAGRAD with a loss whose slope has no bound, by which approximate steps are checked."""


def warn_of_training(
    method: Method, data: Engine, training: Training | None, *, stacklevel: int
) -> None:
    """Warn with figures and the remedy, or not at all."""
    settings = method.settings
    if method.solver == "sgd":
        l2 = method.penalty(data).per_row_of(data.n_remaining)
        too_long = overshooting(data, settings.learning_rate, l2)
        if too_long is not None:
            warnings.warn(too_long, UnscaledRowsWarning, stacklevel=stacklevel)
    if method.replays and settings.period > 1 and not np.isfinite(data.loss.max_slope):
        warnings.warn(
            f"{method.title} checks its approximate steps by the largest slope of the loss, and "
            f"the loss {data.loss.name!r} has none: `unlearn` may end farther from a retraining "
            "than it began. Use the method 'newton' or period=1, or see what audit() says",
            UnboundedReplayWarning,
            stacklevel=stacklevel,
        )
    residual = None if training is None else training.residual
    if training is not None and residual is not None and residual > settings.tol:
        warnings.warn(
            f"Newton's method stopped after {training.iterations} steps where the gradient is "
            f"{residual:.2g} for each row, above tol={settings.tol:g}: scale the rows "
            "(unfit.MaxNormScaler), or raise l2 or tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
