"""Settings of every test: tiers, groups for parallel runs, the same examples on every machine, and
one PostgreSQL for all tests that want it.

`make test` runs what is not slow, `make test-all` everything. Markers, in pyproject.toml too:

slow    not in the quick tier. The same test on PostgreSQL is slow by itself, except in tests/store.
path    one way of its kind through the whole system, which the quick tier takes on PostgreSQL too.
alone   needs the machine for itself, and is never run beside other tests.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import pytest
from hypothesis import settings

import servers

if TYPE_CHECKING:
    import clusters

matplotlib.use("Agg")
os.environ.setdefault("NO_COLOR", "1")
settings.register_profile("unfit", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("unfit")

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tiny" in getattr(item, "fixturenames", ()):  # a whole study, done once in one process
            item.add_marker("slow")
            item.add_marker(pytest.mark.xdist_group("study"))
        if "cluster" in getattr(item, "fixturenames", ()):  # one cluster, in one process
            item.add_marker("slow")
            item.add_marker(pytest.mark.xdist_group("cluster"))
        if on_postgresql(item) and not item.get_closest_marker("path"):
            item.add_marker("slow")
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(HERE))))


def on_postgresql(item: pytest.Item) -> bool:
    """Whether it repeats on PostgreSQL what another test does on SQLite."""
    chosen = getattr(item, "callspec", None)
    return (
        chosen is not None
        and chosen.params.get("database") == "postgresql"
        and "store" not in item.path.parts
    )


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    if not servers.available():
        pytest.skip("PostgreSQL's server is not installed")
    with servers.postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator["clusters.Running"]:
    """A Dask cluster of two workers, for all tests that want it."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")
    import clusters

    with clusters.local(tmp_path_factory.mktemp("cluster")) as running:
        yield running
