"""A catalogue with no files and nothing prepared."""

from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a person's files, and an empty cache."""
    monkeypatch.setenv("UNFIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
