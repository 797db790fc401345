"""The losses as functions of tensors: value, slope and curvature at margins and targets.

Those of core.losses are written once more, as the device computes them; tests hold the two against
each other. A loss of a package comes as formulae of NumPy, and is evaluated on the host: margins go
there, and three numbers a row come back.
"""

from collections.abc import Callable

import torch
from torch.nn.functional import softplus

from unfit.core.losses import Logistic, Loss, SquaredError, SquaredHinge

Value = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Formulae = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
_LINEAR_FROM = 40  # margins: beyond, log(1 + e^m) is m to float64's last digit


def formulae_of(loss: Loss) -> Formulae:
    """(margins, targets) -> values, slopes, curvatures, all of one shape."""
    return _ON_DEVICE.get(type(loss)) or _on_host(loss)


def value_of(loss: Loss) -> Value:
    """(margins, targets) -> values: fewer of the device's kernels where no more is asked for."""
    formulae = formulae_of(loss)
    return _VALUES.get(type(loss)) or (lambda margin, target: formulae(margin, target)[0])


def number_of(loss: Loss) -> int | None:
    """Which of the losses that fused kernels know; None for another one."""
    kinds = list(_ON_DEVICE)
    return kinds.index(type(loss)) if type(loss) in kinds else None


def _logistic_value(margin: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return softplus(margin, threshold=_LINEAR_FROM) - target * margin


def _logistic(margin: torch.Tensor, target: torch.Tensor) -> _Three:
    p = torch.sigmoid(margin)
    return _logistic_value(margin, target), p - target, p * (1 - p)


def _squared_error(margin: torch.Tensor, target: torch.Tensor) -> _Three:
    error = margin - (2 * target - 1)
    return 0.5 * error**2, error, torch.ones_like(margin)


def _squared_hinge(margin: torch.Tensor, target: torch.Tensor) -> _Three:
    y = 2 * target - 1
    short = (1 - y * margin).clamp(min=0)
    return short**2, -2 * y * short, 2 * torch.sign(short)


def _on_host(loss: Loss) -> Formulae:
    def evaluate(margin: torch.Tensor, target: torch.Tensor) -> _Three:
        m, t = margin.cpu().numpy(), target.cpu().numpy()
        found = loss.value(m, t), loss.slope(m, t), loss.curvature(m, t)
        value, slope, curvature = (torch.as_tensor(one).to(margin) for one in found)
        return value, slope, curvature

    return evaluate


_VALUES: dict[type[Loss], Value] = {Logistic: _logistic_value}
_ON_DEVICE: dict[type[Loss], Formulae] = {
    Logistic: _logistic,
    SquaredError: _squared_error,
    SquaredHinge: _squared_hinge,
}
