"""A store on each database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_records import NOW

from unfit.store.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/unfit.db"
    running = request.getfixturevalue("server")
    return running.url(running.database())


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], Store]]:
    """One store after another on the same records, as processes have them."""
    made: list[Store] = []

    def another() -> Store:
        made.append(Store(url, "w", NOW, b"key"))
        return made[-1]

    yield another
    for one in made:
        one.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
