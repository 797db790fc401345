"""The guide at hand: inverse Hessians from before rows left, for steps by products.

Few rows that leave are taken out of the inverses (Woodbury), which then serve for the next request
too. Many are not: conjugate gradients make up for them, and the inverses, which would still be
those of rows that left, are not kept. May know core and engines.base.
"""

from collections.abc import Sequence

import numpy as np

from unfit.core.by_products import guide_of
from unfit.core.conjugate_gradients import Products
from unfit.core.factors import Inverse
from unfit.core.objective import root_weighted
from unfit.core.penalty import Penalty
from unfit.core.statistics import FEW_ROWS_OF_ALL, FEW_ROWS_PER_COLUMN
from unfit.engines.base import Engine
from unfit.methods.base import State


def guide_without(
    state: State, data: Engine, deleted: np.ndarray, penalty: Penalty
) -> tuple[Products | None, Sequence[Inverse] | None]:
    """A guide for what remains when rows leave, and the inverses to keep for the next time."""
    inverses, m = state.inverses, len(deleted)
    if inverses is None or not all(one.fits_float32 for one in inverses):
        return None, None
    few = m < FEW_ROWS_PER_COLUMN * state.weights.shape[1] and m <= FEW_ROWS_OF_ALL * state.n
    if not few:
        return guide_of(inverses), None
    rows = data.take(deleted)
    pairs = zip(inverses, root_weighted(rows, state.centre), strict=True)
    shift = penalty.leaving(rows.total_weight, rows.d)
    kept = [one.downdated(U, shift) for one, U in pairs]
    return guide_of(kept), kept
