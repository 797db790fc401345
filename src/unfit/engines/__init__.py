"""Where rows lie and sums over them are made. `Dask` is an engine with settings of its own."""

from unfit.engines.cluster.settings import Dask

__all__ = ["Dask"]
