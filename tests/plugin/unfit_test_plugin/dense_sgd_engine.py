"""The same engine with SGD: it borrows the loops, and the layout of rows, from the built-in one."""

from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit_test_plugin.dense_engine import DenseEngine


class DenseSgdEngine(DenseEngine):
    name = "dense-sgd"

    def __init__(self, rows: Rows, n_classes: int) -> None:
        super().__init__(rows, n_classes)
        loops = CpuEngine(rows, n_classes)
        self.lay_out, self.drop_layout = loops.lay_out, loops.drop_layout
        self.sgd, self.replay = loops.sgd, loops.replay
