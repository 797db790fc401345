"""Whether the constants of a workspace's card are a fit on the rows that remain.

The fit is the one of tools/constants_study.py, which shares no code with unfit.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from constants_study import differing, exported_card, reference_number

__all__ = ["differing", "exported_card", "reference_number"]
