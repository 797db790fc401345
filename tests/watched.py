"""Rows of so many columns that a Hessian is dearer than products; engines that count Hessians."""

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine

N = 2500


class Watched(CpuEngine):
    """An engine that says how many Hessians were asked for."""

    hessians = 0

    def hessian_sum(self, W, mask=None):
        self.hessians += 1
        return super().hessian_sum(W, mask)


class HessiansOnly(Watched):
    """The same, whose products come from Hessians: so Hessians are what is stepped by."""

    @property
    def products_need_hessians(self):
        return True


def wide(classes=2, dtype=np.float32, engine=Watched, columns=300):
    """Columns of falling size, as those of images along their principal directions."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, columns)) / np.sqrt(np.arange(1, columns + 1) * 6)
    codes = np.argmax(X[:, :classes] + 0.1 * rng.standard_normal((N, classes)), axis=1)
    return engine(Rows(X.astype(dtype), codes.astype(np.int32), True), classes)
