"""MNIST: ten digits, one problem each."""

from ..data import Data, catalogued

NAME, QUICK = "mnist", False
SECTIONS = ("stream", "fit", "batches")  # the others compare with one problem


def load() -> Data:
    return catalogued(NAME, target=3)
