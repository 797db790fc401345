"""What an engine may lack: training by SGD, and replaying a stored run. May know core."""

from typing import Protocol, runtime_checkable

import numpy as np

from unfit.core.replay import Cadence
from unfit.core.sgd import Layout, Plan
from unfit.engines.base import Engine
from unfit.errors import Unavailable
from unfit.progress import ProgressCallback


@runtime_checkable
class SgdEngine(Protocol):
    """Two loops that walk through the rows in mini-batches; an engine may lack them."""

    def lay_out(self, row_of: np.ndarray) -> Layout:
        """The given rows in the given order, as the loops want them; the last one is kept."""
        ...

    def drop_layout(self) -> None: ...

    def sgd(
        self,
        layout: Layout,
        plan: Plan,
        start: np.ndarray,
        *,
        linear_term: np.ndarray | None = None,
        trajectory: np.ndarray | None = None,
        progress: ProgressCallback | None = None,
    ) -> np.ndarray:
        """Weights (k, d) after the plan's steps; see core.sgd.train_sgd."""
        ...

    def replay(
        self,
        layout: Layout,
        plan: Plan,
        cadence: Cadence,
        fate: np.ndarray,
        counts: np.ndarray,
        *,
        old: np.ndarray,
        new: np.ndarray,
        radius: float = np.inf,
        progress: ProgressCallback | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (k, d) and batch sizes of a stored run without some rows; see core.replay."""
        ...


def sgd_engine(data: Engine, who: str) -> SgdEngine:
    """The engine, known to walk through rows; or an error that says who needs that."""
    if data.takes_sparse and not isinstance(data, SgdEngine):
        raise Unavailable(
            f"{who} walks through rows in mini-batches, which the engine {data.name!r} cannot do "
            "with sparse rows; use a method and solver without SGD, or give dense rows "
            "(X.toarray())"
        )
    if not isinstance(data, SgdEngine):
        raise Unavailable(
            f"{who} needs an engine that can walk through rows in mini-batches, and the engine "
            f"{data.name!r} cannot; use the engine 'cpu', or a method and solver without SGD"
        )
    return data
