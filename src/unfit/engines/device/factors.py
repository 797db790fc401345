"""Hessians on the device, ready to be solved with: what crosses are vectors, never a d x d matrix.

They are a `Cholesky` and an `Inverse` like those of core.factors, whose arrays come to the host if
somebody asks for them by name. A pickle holds them as host arrays, for whoever has no GPU.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from unfit.core.factors import Cholesky, Factor, Inverse
from unfit.core.noise import inverse_fourth_root_by_lanczos
from unfit.core.penalty import Ridge
from unfit.engines.device.memory import device_faults, to_device, to_numpy

_NOT_DEFINITE = "the Hessian is not positive definite; raise l2 or lower C"


class DeviceCholesky(Cholesky):
    """H = L L^T of one of several problems, whose factors (k, d, d) lie in one tensor."""

    def __init__(self, lowers: torch.Tensor, hessians: torch.Tensor, problem: int) -> None:
        self._lowers, self._hessians, self._problem = lowers, hessians, problem

    @classmethod
    def of_all(cls, hessians: torch.Tensor) -> list["DeviceCholesky"]:
        """The factors of Hessians (k, d, d) that lie on the device."""
        with device_faults(hessians.device):
            lowers, failed = torch.linalg.cholesky_ex(hessians)
        if bool(failed.any()):
            raise np.linalg.LinAlgError(_NOT_DEFINITE)
        return [cls(lowers, hessians, c) for c in range(len(hessians))]

    @cached_property
    def lower(self) -> np.ndarray:
        return to_numpy(self._lowers[self._problem])

    @cached_property
    def hessian(self) -> np.ndarray:
        return to_numpy(self._hessians[self._problem])

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        with device_faults(self._lowers.device):
            columns = to_device(rhs.reshape(len(rhs), -1), self._lowers.device)
            found = torch.cholesky_solve(columns, self._lowers[self._problem])
            return to_numpy(found).reshape(rhs.shape)

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        H = self._hessians[self._problem]
        return inverse_fourth_root_by_lanczos(lambda v: _times(H, v), b)

    @classmethod
    def solve_each(cls, factors: Sequence[Factor], rhs: np.ndarray) -> np.ndarray:
        found = [one for one in factors if isinstance(one, DeviceCholesky)]
        if len(found) < len(factors) or any(one._lowers is not found[0]._lowers for one in found):
            return super().solve_each(factors, rhs)
        with device_faults(found[0]._lowers.device):
            lowers = _picked(found[0]._lowers, [one._problem for one in found])
            columns = to_device(rhs, lowers.device)[:, :, None]
            return to_numpy(torch.cholesky_solve(columns, lowers)[:, :, 0])

    def __reduce__(self) -> tuple[object, ...]:
        return Cholesky, (self.lower, self.hessian)


class DeviceInverse(Inverse):
    """H and (H - ahead I)^-1, both on the device in float64."""

    def __init__(
        self, hessian: torch.Tensor, inverse: torch.Tensor, ahead: Ridge = 0.0, share: float = 0.0
    ) -> None:
        self._hessian, self._inverse = hessian, inverse
        object.__setattr__(self, "ahead", ahead)  # fields of a frozen class
        object.__setattr__(self, "share", share)

    @classmethod
    def on(
        cls, hessian: np.ndarray, device: torch.device, ahead: Ridge = 0.0, share: float = 0.0
    ) -> "DeviceInverse":
        with device_faults(device):
            H = to_device(hessian, device)
            left = H
            if np.any(ahead):
                left = H.clone()
                left.diagonal().sub_(torch.as_tensor(ahead, dtype=H.dtype, device=device))
            lower, failed = torch.linalg.cholesky_ex(left)
            if bool(failed):
                raise np.linalg.LinAlgError(_NOT_DEFINITE)
            inverse = torch.cholesky_inverse(lower)
        return cls(H, (inverse + inverse.mT) / 2, ahead, share)

    @cached_property
    def hessian(self) -> np.ndarray:
        return to_numpy(self._hessian)

    @cached_property
    def inverse(self) -> np.ndarray:
        return to_numpy(self._inverse)

    @cached_property
    def rough(self) -> np.ndarray:
        with device_faults(self._inverse.device):
            return to_numpy(self._inverse.to(torch.float32))

    @property
    def fits_float32(self) -> bool:
        """What stands for the rough copy here is the inverse itself."""
        return True

    def solve(self, v: np.ndarray) -> np.ndarray:
        return _times(self._inverse, v)

    def product(self, v: np.ndarray) -> np.ndarray:
        return _times(self._hessian, v)

    def roughly(self, v: np.ndarray) -> np.ndarray:
        return self.solve(v)

    @classmethod
    def roughly_each(cls, kept: Sequence[Inverse], vectors: np.ndarray) -> np.ndarray:
        found = [one for one in kept if isinstance(one, DeviceInverse)]
        if len(found) < len(kept) or not found:
            return super().roughly_each(kept, vectors)
        with device_faults(found[0]._inverse.device):
            V = to_device(vectors, found[0]._inverse.device)
            each = [one._inverse @ v for one, v in zip(found, V, strict=True)]
            return to_numpy(torch.stack(each))

    def downdated(self, U: np.ndarray, shift: Ridge) -> "DeviceInverse":
        H, P = self._hessian, self._inverse
        with device_faults(H.device):
            columns = to_device(U.T, H.device).to(torch.float64)
            Z = P @ columns
            gap = torch.eye(columns.shape[1], dtype=torch.float64, device=H.device) - columns.T @ Z
            inverse = torch.addmm(P, Z, torch.linalg.solve(gap, Z.T))
            hessian = torch.addmm(H, columns, columns.T, alpha=-1)
            hessian.diagonal().sub_(torch.as_tensor(shift, dtype=torch.float64, device=H.device))
        return DeviceInverse(hessian, inverse)

    def __reduce__(self) -> tuple[object, ...]:
        return Inverse, (self.hessian, self.inverse, self.rough, self.ahead, self.share)


def _times(matrix: torch.Tensor, v: np.ndarray) -> np.ndarray:
    with device_faults(matrix.device):
        return to_numpy(matrix @ to_device(v, matrix.device))


def _picked(tensor: torch.Tensor, problems: list[int]) -> torch.Tensor:
    return tensor if problems == list(range(len(tensor))) else tensor[problems]
