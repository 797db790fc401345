"""The engine "torch": rows on a GPU, or on whatever device PyTorch is told to use.

PyTorch is an extra; without it nothing else here is missing.
"""

from unfit.errors import Unavailable

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    raise Unavailable(
        "The engine 'torch' needs PyTorch, which is not installed here; "
        "run pip install \"unfit[gpu]\", or use the engine 'cpu'."
    ) from missing
except (ImportError, OSError) as broken:
    raise Unavailable(
        "The engine 'torch' needs PyTorch, which is installed here but cannot be loaded "
        f"({broken}); install it anew, or use the engine 'cpu'."
    ) from broken
