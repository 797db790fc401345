"""The raw rows a workspace still holds, and whether its card's constants are a fit on them.

The fit is the one of tools/constants_study.py, which shares no code with unfit.
"""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from constants_study import check_card, training_rows

from unfit.workspace import Workspace


def exported_card(ws: Workspace) -> dict[str, Any]:
    _, content = ws.export()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return dict(json.loads(file.read("card.json")))


def differing(ws: Workspace) -> list[str]:
    """Columns whose constants are not those of a fit on the training rows that remain."""
    with ws._writing() as keeper:
        rows = training_rows(keeper.dataset(), keeper.live())
    card = exported_card(ws)
    return check_card(card, rows, ws.config.columns, ws.config.preprocessing.min_rows)
