"""Figures by the names of their plans, drawn and saved as SVG and PNG."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unfit import disk
from unfit.experiments.figures.beyond import beyond
from unfit.experiments.figures.laws import deletion_laws, deletion_laws_extended
from unfit.experiments.figures.look import look
from unfit.experiments.figures.noise import noise
from unfit.experiments.figures.positions import streams
from unfit.experiments.figures.stream import pipeline
from unfit.experiments.figures.tradeoffs import (
    appendix_grids,
    effectiveness_certifiability,
    efficiency_certifiability,
    efficiency_effectiveness,
)
from unfit.experiments.findings import Findings

FIGURES: dict[str, Callable[[Findings], Figure | dict[str, Figure]]] = {
    "deletion-laws": deletion_laws,
    "deletion-laws-extended": deletion_laws_extended,
    "efficiency-certifiability": efficiency_certifiability,
    "efficiency-effectiveness": efficiency_effectiveness,
    "noise": noise,
    "effectiveness-certifiability": effectiveness_certifiability,
    "appendix-grids": appendix_grids,
    "pipeline": pipeline,
    "streams": streams,
    "beyond": beyond,
}


def draw(name: str, findings: Findings, folder: Path) -> dict[str, Path]:
    """Draw a figure (or the several of one name) into a folder; the SVG files by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    with look():
        drawn = FIGURES[name](findings)
        several = drawn if isinstance(drawn, dict) else {"": drawn}
        return {
            "-".join(filter(None, (name, part))): _save(figure, folder, name, part)
            for part, figure in several.items()
        }


def _save(figure: Figure, folder: Path, name: str, part: str) -> Path:
    FigureCanvasAgg(figure)
    stem = "-".join(filter(None, (name, part)))
    for suffix in ("png", "svg"):
        buffer = BytesIO()
        metadata = {"Date": None} if suffix == "svg" else {"Software": None}
        figure.savefig(buffer, format=suffix, metadata=metadata)
        disk.write(folder / f"{stem}.{suffix}", buffer.getvalue())
        figure.set_layout_engine("none")  # it has been laid out; once is enough
    return folder / f"{stem}.svg"
