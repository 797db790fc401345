"""20 Newsgroups by author, as tf-idf: in two classes, the first ten or not, and in twenty."""

from ..sparse import SparseData

NAME, QUICK = "newsgroups", False
SECTIONS = ("sparse",)


def load() -> SparseData:
    return SparseData.catalogued(NAME, requests=100, classes=(2, 20))
