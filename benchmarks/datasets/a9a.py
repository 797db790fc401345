"""a9a, whether a person earns more than 50,000 dollars; every row is a person."""

from ..sparse import SparseData

NAME, QUICK = "a9a", False
SECTIONS = ("sparse",)


def load() -> SparseData:
    return SparseData.catalogued(NAME, requests=100, classes=(2,))
