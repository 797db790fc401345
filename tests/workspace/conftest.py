"""Workspaces on both databases, made once and copied for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from workspaces import Kept, make

import servers
from unfit.workspace import Workspace


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> servers.Server | None:
    return None if request.param == "sqlite" else request.getfixturevalue("server")


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    return make(tmp_path_factory.mktemp("untrained") / "w", database, trained=False)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    return make(tmp_path_factory.mktemp("trained") / "w", database)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A trained workspace on SQLite."""
    with make(tmp_path / "w", None).open() as ws:
        yield ws
