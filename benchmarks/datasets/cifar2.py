"""CIFAR2: cats (class 0) and ships of CIFAR-10."""

from ..data import Data, catalogued

NAME, QUICK = "cifar2", False


def load() -> Data:
    return catalogued(NAME)
