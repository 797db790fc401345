"""The trajectory's file: sized, checked, removed with its owner, and picklable by value."""

import gc
import pickle
import shutil
from collections import namedtuple

import numpy as np
import pytest

from unfit.core.trajectory import TrajectoryFile, readable


def test_the_file_lives_and_dies_with_the_object(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = TrajectoryFile((10, 2, 1, 3)).touch()
    assert file.path.stat().st_size == file.nbytes == 480
    file.array[...] = 7.0
    copy = pickle.loads(pickle.dumps(file))
    assert copy.path != file.path
    assert np.array_equal(copy.array, file.array)
    del file, copy
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_too_small_is_an_error_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(OSError, match=r"needs 8 MB but .* has 1 kB free; point TMPDIR"):
        TrajectoryFile((1000, 1000))
    assert list(tmp_path.iterdir()) == []


def test_readable():
    assert [readable(n) for n in (5, 12_345, 12_345_678, 3 * 10**9, 5 * 10**13)] == [
        "5 bytes", "12.3 kB", "12.3 MB", "3 GB", "50 TB",
    ]  # fmt: skip
