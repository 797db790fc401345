"""HIGGS: simulated collisions, signal against background; SGD takes the steps of the whole set."""

from ..data import Data, catalogued

NAME, QUICK = "higgs", False
SECTIONS = ("stream", "batches")


def load() -> Data:
    return catalogued(NAME)
