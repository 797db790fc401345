"""Shared settings: the same examples on every machine, and no deadline on a shared one.

And one PostgreSQL for all tests that want it.
"""

import os
from collections.abc import Iterator

import matplotlib
import pytest
from hypothesis import settings

import servers

matplotlib.use("Agg")
os.environ.setdefault("NO_COLOR", "1")
settings.register_profile("unfit", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("unfit")


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    if not servers.available():
        pytest.skip("PostgreSQL's server is not installed")
    with servers.postgresql() as running:
        yield running
