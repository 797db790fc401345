"""Figures: one look throughout, from finished runs alone."""

from unfit.experiments.figures.drawing import FIGURES, draw

__all__ = ["FIGURES", "draw"]
