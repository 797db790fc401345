"""One module a data set: NAME, QUICK (needs no data folder) and load()."""
