"""The data sets unfit knows, one small file each (or one for a family)."""

from unfit.data.catalog.entries import (
    adult,
    cifar2,
    clicks,
    covtype,
    diabetes130,
    epsilon,
    hapt,
    higgs,
    mnist,
    movielens,
    news,
    small,
)
from unfit.data.catalog.entry import Entry

MODULES = (
    mnist,
    covtype,
    higgs,
    cifar2,
    epsilon,
    adult,
    diabetes130,
    movielens,
    hapt,
    news,
    clicks,
    small,
)
ALL: tuple[Entry, ...] = tuple(entry for module in MODULES for entry in module.ENTRIES)
