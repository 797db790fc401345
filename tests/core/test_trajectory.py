"""The trajectory's file: sized, checked, removed with its owner, and picklable by value."""

import pickle
import shutil
from collections import namedtuple

import pytest

from unfit.core.trajectory import Reserve, TrajectoryFile, readable


def test_the_file_lives_and_dies_with_the_object(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = TrajectoryFile((10, 2, 1, 3)).touch()
    assert file.nbytes == file.array.nbytes == 480
    file.array[...] = 7.0
    copy = pickle.loads(pickle.dumps(file))
    copy.array[0] = 8.0
    assert (file.array == 7).all()
    assert (copy.array[1:] == 7).all()
    assert list(tmp_path.iterdir()) == []  # even a killed process leaves nothing


def test_a_reserve_is_taken_once():
    file = TrajectoryFile((3,))
    reserve = Reserve(file)
    assert pickle.loads(pickle.dumps(reserve)) is None
    assert reserve.take() is file
    assert reserve.take() is None


def test_a_disk_too_small_is_an_error_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(OSError, match=r"needs 8 MB but .* has 1 kB free; point TMPDIR"):
        TrajectoryFile((1000, 1000))
    assert list(tmp_path.iterdir()) == []


def test_readable():
    assert [readable(n) for n in (5, 12_345, 12_345_678, 3 * 10**9, 5 * 10**13)] == [
        "5 bytes",
        "12.3 kB",
        "12.3 MB",
        "3 GB",
        "50 TB",
    ]
