"""The engine "dask": rows in files that all workers of a Dask cluster map, sums made where they
are mapped, weights and masks here.

settings: what a person gives; connection: the scheduler, its workers and their failures; tasks:
what runs on a worker; engine: what methods ask.
"""
