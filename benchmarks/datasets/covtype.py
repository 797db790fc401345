"""COVTYPE: forest cover, type 2 against the rest."""

from ..data import Data, catalogued

NAME, QUICK = "covtype", False


def load() -> Data:
    return catalogued(NAME)
