"""The data sets unfit knows, one small file each (or one for a family)."""

from unfit.data.catalog.entries import cifar2, covtype, higgs, mnist
from unfit.data.catalog.entry import Entry

ALL: tuple[Entry, ...] = (*mnist.ENTRIES, *cifar2.ENTRIES, *covtype.ENTRIES, *higgs.ENTRIES)
