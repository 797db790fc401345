"""Which kernels a process has compiled or loaded so far. Knows nothing of ours."""

import sys

from numba.core.dispatcher import Dispatcher

_known: tuple[int, list[Dispatcher]] = (0, [])  # how many modules there were, and our kernels


def kernels_loaded() -> int:
    """How many signatures of our kernels are ready in this process; it only ever grows.

    A signature becomes ready by being compiled, which takes seconds, or by being read from numba's
    cache, which takes a fraction of one. Work during which the number grew was not all work.
    """
    return sum(len(kernel.overloads) for kernel in _kernels())


def _kernels() -> list[Dispatcher]:
    """Our kernels; they are looked for again when modules were imported since."""
    global _known
    if _known[0] != len(sys.modules):
        ours = [m for name, m in list(sys.modules.items()) if name.startswith("unfit.core.")]
        found = [f for m in ours for f in vars(m).values() if isinstance(f, Dispatcher)]
        _known = len(sys.modules), found
    return _known[1]
