"""A PostgreSQL to read from."""

from collections.abc import Iterator

import pytest

import servers


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    if not servers.available():
        pytest.skip("PostgreSQL's server is not installed")
    with servers.postgresql() as running:
        yield running
