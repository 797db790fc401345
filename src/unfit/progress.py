"""The one type for progress: whoever works long calls it, whoever waits passes it in."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]
"""Called as progress(stage, done, total) while the work goes on; total is 0 if it is unknown."""
