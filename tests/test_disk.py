"""Files come to the disk in turn or at once, each of them once, and a failure is raised."""

import math
import os
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from unfit import disk
from unfit.core.kernels.parallel import SHORT, blas_for


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    made = [tmp_path / f"file-{i}" for i in range(5)]
    for path in made:
        path.write_bytes(b"x")
    return [*made, tmp_path]


@pytest.mark.parametrize("slow", [0.0, math.inf], ids=["at once", "in turn"])
def test_every_path_is_synced_once(
    paths: list[Path], slow: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    real = os.fsync

    def watched(handle: int) -> None:
        found = os.fstat(handle)
        seen.append((found.st_dev, found.st_ino))
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    disk.sync_all([*paths, paths[0]], slow)
    wanted = [(path.stat().st_dev, path.stat().st_ino) for path in paths]
    assert sorted(seen) == sorted(wanted)


@pytest.mark.parametrize("slow", [0.0, math.inf], ids=["at once", "in turn"])
def test_a_file_that_cannot_be_synced_is_an_error(paths: list[Path], slow: float) -> None:
    paths[3].unlink()
    with pytest.raises(FileNotFoundError, match="file-3"):
        disk.sync_all(paths, slow)


def test_blas_is_held_to_one_core_for_short_rows_alone() -> None:
    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    with blas_for(SHORT):
        assert set(threads()) == {1}
    assert threads() == before
    with blas_for(SHORT + 1):
        assert threads() == before


def test_who_comes_late_finds_no_folder_for_parts(tmp_path: Path) -> None:
    with disk.parts_folder(tmp_path) as parts:
        (parts / "one").write_bytes(b"ab")
        (parts / "two").write_bytes(b"cd")
        with disk.create(tmp_path / "whole") as file:
            disk.append_part(file, parts / "one")
            disk.append_part(file, parts / "two")
        late = disk.create(parts / "late")
    with late:
        late.write(b"ef")
    with pytest.raises(FileNotFoundError):
        disk.create(parts / "later")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    assert (tmp_path / "whole").read_bytes() == b"abcd"
