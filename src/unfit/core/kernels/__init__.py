"""Which kernels a process has compiled or loaded so far. Knows nothing of ours."""

import sys
from collections.abc import Sequence, Sized

from numba.core.dispatcher import Dispatcher

# How many modules there were, and what is ready of each of our kernels: it only grows.
_known: tuple[int, Sequence[Sized]] = (0, [])


def kernels_loaded() -> int:
    """How many signatures of our kernels are ready in this process; it only ever grows.

    A signature becomes ready by being compiled, which takes seconds, or by being read from numba's
    cache, which takes a fraction of one. Work during which the number grew was not all work.
    """
    return sum(map(len, _signatures()))


def _signatures() -> Sequence[Sized]:
    """Those of each kernel; kernels are looked for again when modules were imported since."""
    global _known
    if _known[0] != len(sys.modules):
        ours = [m for name, m in list(sys.modules.items()) if name.startswith("unfit.core.")]
        found = [f.overloads for m in ours for f in vars(m).values() if isinstance(f, Dispatcher)]
        _known = len(sys.modules), found
    return _known[1]
