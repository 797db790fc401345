"""The losses as functions of tensors: value, slope and curvature at margins and targets.

Those of core.losses are written once more, as the device computes them; tests hold the two against
each other. A loss of a package comes as formulae of NumPy, and is evaluated on the host: margins go
there, and three numbers a row come back.
"""

from collections.abc import Callable

import torch

from unfit.core.losses import Logistic, Loss, SquaredError, SquaredHinge

Formulae = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def formulae_of(loss: Loss) -> Formulae:
    """(margins, targets) -> values, slopes, curvatures, all of one shape."""
    return _ON_DEVICE.get(type(loss)) or _on_host(loss)


def number_of(loss: Loss) -> int | None:
    """Which of the losses that fused kernels know; None for another one."""
    kinds = list(_ON_DEVICE)
    return kinds.index(type(loss)) if type(loss) in kinds else None


def _logistic(margin: torch.Tensor, target: torch.Tensor) -> _Three:
    small = torch.exp(-margin.abs())
    value = margin.clamp(min=0) + torch.log1p(small) - target * margin
    p = torch.sigmoid(margin)
    return value, p - target, p * (1 - p)


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


_ON_DEVICE: dict[type[Loss], Formulae] = {
    Logistic: _logistic,
    SquaredError: _squared_error,
    SquaredHinge: _squared_hinge,
}
