"""Trained workspaces on both databases, made once; an app on a copy for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import services
from workspaces import Kept, make

import servers


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> servers.Server | None:
    return None if request.param == "sqlite" else request.getfixturevalue("server")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    return make(tmp_path_factory.mktemp("trained") / "w", database)


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make(tmp_path_factory.mktemp("sqlite") / "w", None)


@pytest.fixture
def kept(trained: Kept, tmp_path: Path) -> Kept:
    """A workspace of the test's own."""
    return trained.copy(tmp_path / "own")


@pytest.fixture(scope="module")
def shared(trained: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.Service]:
    """An app for tests that change nothing."""
    with services.serving(trained.copy(tmp_path_factory.mktemp("shared") / "w")) as made:
        yield made


@pytest.fixture
def service(kept: Kept) -> Iterator[services.Service]:
    with services.serving(kept) as made:
        yield made
