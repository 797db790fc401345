"""Which kernels a process has compiled or loaded so far. Knows nothing of ours."""

import sys

from numba.core.dispatcher import Dispatcher


def kernels_loaded() -> int:
    """How many signatures of our kernels are ready in this process; it only ever grows.

    A signature becomes ready by being compiled, which takes seconds, or by being read from numba's
    cache, which takes a fraction of one. Work during which the number grew was not all work.
    """
    count = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("unfit.core."):
            own = [f for f in vars(module).values() if isinstance(f, Dispatcher)]
            count += sum(len(f.overloads) for f in own)
    return count
