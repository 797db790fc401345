"""Files that are wrong, cut, missing or too large for the disk; processes that die or race."""

import functools
import hashlib
import http.server
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unfit.data import catalog
from unfit.data.catalog import fetch, prepared
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training
from unfit.errors import BadInput, Unavailable

BODY = bytes(range(256)) * 40
SHA256 = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNFIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UNFIT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/none.bin":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized.bin":
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[:1000] if self.path == "/cut.bin" else BODY)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def entry(*files: File, name: str = "tiny", others: tuple[FileSet, ...] = ()) -> Entry:
    """Rows made of the bytes of the first file."""

    def read(paths: dict[str, Path]) -> RawArrays:
        return {"bytes": np.frombuffer(paths[files[0].name].read_bytes(), np.uint8)}

    def prepare(raw: RawArrays) -> Parts:
        X = raw["bytes"][:10240].reshape(-1, 8).astype(np.float32)
        y = np.arange(len(X), dtype=np.int64) % 2
        return Parts(X[10:], y[10:], X[:10], y[:10])

    return Entry(
        name=name,
        title="Tiny",
        about="Bytes.",
        citation="none",
        terms="none",
        file_sets=(*others, FileSet(files, read)),
        prepare=prepare,
        training=Training(1, 1, 1),
        intercept=True,
    )


def left(folder: Path) -> list[str]:
    """What is in a folder of the cache, locks aside."""
    return sorted(p.name for p in folder.glob("*") if p.suffix != ".lock")


@contextmanager
def disk_of(nbytes: int) -> Iterator[None]:
    """Every file that would grow beyond nbytes meets a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_download_is_verified_and_kept(web: str, cache: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    made = prepared.prepare(
        entry(File("good.bin", SHA256, len(BODY), f"{web}good.bin")),
        lambda *said: heard.append(said),
    )
    np.testing.assert_array_equal(made.X_test[0], np.arange(8))
    assert made.d == 9
    assert left(cache / "downloads") == ["good.bin"]
    assert ("downloading good.bin", len(BODY), len(BODY)) in heard
    assert any(stage == "preparing tiny" for stage, _, _ in heard)


@pytest.mark.parametrize(
    ("name", "checksum", "size", "error", "said"),
    [
        ("good.bin", "md5:" + "0" * 32, None, BadInput, "good.bin .*expected md5:000.*but got"),
        ("good.bin", SHA256, 99, BadInput, "good.bin .* 10,240 bytes instead of 99"),
        ("cut.bin", SHA256, None, Unavailable, "cut.bin ended after 1,000 of 10,240 bytes"),
        ("none.bin", SHA256, None, Unavailable, "none.bin answers 404.*put none.bin .public at"),
    ],
)
def test_a_wrong_download_is_said_and_nothing_kept(
    name: str, checksum: str, size: int | None, error: type, said: str, web: str, cache: Path
) -> None:
    with pytest.raises(error, match=said):
        prepared.prepare(entry(File(name, checksum, size, web + name)))
    assert left(cache / "downloads") == []
    assert left(cache / "prepared") == []


def test_without_a_network_it_says_which_file_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a.bin"
    tiny = entry(File("a.bin", SHA256, None, url), others=(FileSet((File("a.npz"),), dict),))
    with pytest.raises(Unavailable, match="for Tiny, put a.npz; or a.bin .public at http.*UNFIT_D"):
        prepared.prepare(tiny)
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path / "mine"))
    with pytest.raises(Unavailable, match=f"into {tmp_path}/mine"):
        prepared.prepare(tiny)
    with pytest.raises(Unavailable, match=r"for Tiny, put b.bin into"):
        prepared.prepare(entry(File("b.bin")))


def test_what_nobody_published_a_checksum_of_is_trusted_once(web: str, cache: Path) -> None:
    file = File("unsized.bin", url=f"{web}unsized.bin")
    prepared.prepare(entry(file))
    beside = cache / "downloads" / "unsized.bin.sha256"
    assert beside.read_text().strip() == SHA256
    (cache / "downloads" / "unsized.bin").write_bytes(BODY[::-1])
    with pytest.raises(BadInput, match="it was removed"):
        prepared.prepare(replace(entry(file), version=2))
    assert left(cache / "downloads") == ["unsized.bin.sha256"]
    assert prepared.prepare(replace(entry(file), version=2)).n == 1270


def test_a_persons_file_is_refused_and_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path))
    (tmp_path / "a.bin").write_bytes(BODY + b"x")
    with pytest.raises(BadInput, match=f"{tmp_path}/a.bin has the checksum .*instead of {SHA256}"):
        prepared.prepare(entry(File("a.bin", SHA256)))
    assert (tmp_path / "a.bin").read_bytes() == BODY + b"x"


def test_a_persons_file_comes_before_a_download(
    web: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path))
    (tmp_path / "good.bin").write_bytes(BODY)
    tiny = entry(File("good.bin", SHA256, None, f"{web}good.bin"))
    prepared.prepare(tiny)
    assert not (cache / "downloads").exists()
    monkeypatch.setattr(fetch, "verify", None)  # once: what is prepared is not checked again
    assert prepared.prepare(tiny).n == 1270
    (tmp_path / "good.bin").unlink()  # nor asked for
    assert prepared.prepare(tiny).n == 1270


def test_a_full_disk_is_said_and_nothing_kept(web: str, cache: Path, tmp_path: Path) -> None:
    big = File("good.bin", SHA256, 1 << 60, f"{web}good.bin")
    with pytest.raises(Unavailable, match="downloading good.bin needs 1.15e.09 GB"):
        prepared.prepare(entry(big))
    tiny = entry(File("good.bin", SHA256, None, f"{web}good.bin"))
    with disk_of(5000), pytest.raises(Unavailable, match="is full: downloading good.bin was given"):
        prepared.prepare(tiny)
    assert left(cache / "downloads") == []
    with disk_of(20000), pytest.raises(Unavailable, match="is full: preparing tiny was given up"):
        prepared.prepare(tiny)
    assert left(cache / "prepared") == []
    assert prepared.prepare(tiny).n == 1270


def test_a_cache_that_cannot_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNFIT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(Unavailable, match="set UNFIT_CACHE"):
        catalog.load("digits-b")


def test_a_cache_that_cannot_be_written_is_said(cache: Path) -> None:
    (cache / "prepared" / ".digits-b.lock").mkdir(parents=True)
    with pytest.raises(Unavailable, match="cannot write to .*prepared.*set UNFIT_CACHE"):
        catalog.load("digits-b")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from unfit.data.catalog.cache import cache_folder

    monkeypatch.delenv("UNFIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/unfit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/people/me")
    assert cache_folder() == Path("/people/me/.cache/unfit")


LOAD = """
import json, os, signal, sys
from unfit.data import catalog
heard = []
def told(stage, done, total):
    heard.append(stage)
    if stage.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
made = catalog.load(sys.argv[1], told)
print(json.dumps([heard, float(made.X.sum())]))
"""


def start(name: str, die_at: str = "never") -> subprocess.Popen:
    code = [sys.executable, "-c", LOAD, name, die_at]
    return subprocess.Popen(code, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("stage", ["preparing", "writing digits-b/X", "writing digits-b/y_test"])
def test_a_preparation_that_was_killed_leaves_nothing_that_is_used(stage: str, cache: Path) -> None:
    process = start("digits-b", die_at=stage)
    process.communicate(timeout=120)
    assert process.returncode == -9
    folder = cache / "prepared"
    half = [name.startswith(".digits-b-") for name in left(folder)]
    assert half == ([True] if stage.startswith("writing") else [])
    heard: list[str] = []
    assert catalog.load("digits-b", lambda stage, *_: heard.append(stage)).n == 1438
    assert "preparing digits-b" in heard
    assert len(left(folder)) == 1  # what the dead process left is gone


def test_a_download_that_was_killed_is_swept(web: str, cache: Path) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / ".good.bin-abcdefgh.tmp").write_bytes(BODY[:10])
    (cache / "downloads" / ".good.bin-ijklmnop.tmp").mkdir()
    (cache / "downloads" / ".good.bin-ijklmnop.tmp" / "tmp1").write_bytes(BODY[:10])
    (cache / "downloads" / ".good.bin-b-abcdefgh.tmp").write_bytes(b"of another file")
    prepared.prepare(entry(File("good.bin", SHA256, None, f"{web}good.bin")))
    assert left(cache / "downloads") == [".good.bin-b-abcdefgh.tmp", "good.bin"]


def test_two_processes_prepare_once(cache: Path) -> None:
    both = [start("digits-b") for _ in range(2)]
    said = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][1] == said[1][1]
    assert sum("preparing digits-b" in heard for heard, _ in said) == 1
    assert len(left(cache / "prepared")) == 1


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm",
    [
        lambda place: flip(place / "X.npy"),
        lambda place: flip(place / "y_test.npy"),
        lambda place: os.truncate(place / "X.npy", 1000),
        lambda place: (place / "y.npy").unlink(),
        lambda place: (place / "card.json").unlink(),
        lambda place: (place / "card.json").write_text("{"),
        lambda place: (place / "card.json").write_text("[]"),
    ],
)
def test_prepared_rows_that_were_damaged_are_prepared_anew(harm: object, cache: Path) -> None:
    before = np.array(catalog.load("digits-b").X)
    (place,) = (p for p in (cache / "prepared").iterdir() if p.is_dir())
    harm(place)  # type: ignore[operator]
    heard: list[str] = []
    after = catalog.load("digits-b", lambda stage, *_: heard.append(stage))
    assert "preparing digits-b" in heard
    np.testing.assert_array_equal(after.X, before)
    catalog.load("digits-b", lambda stage, *_: pytest.fail(stage))


def test_a_new_version_is_prepared_anew(cache: Path) -> None:
    digits = catalog.find("digits-b")
    prepared.prepare(digits)
    prepared.prepare(replace(digits, version=2))
    assert len(left(cache / "prepared")) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"X": np.zeros((4, 2))}, "float32"),
        ({"X": np.full((4, 2), np.nan, np.float32)}, "a non-finite number"),
        ({"y": np.array([0, 2, 0, 2])}, "0..k-1"),
        ({"y_test": np.array([0, 7])}, "no training row"),
        ({"X_test": np.zeros((2, 3), np.float32)}, "different columns"),
        ({"groups": np.zeros(3)}, "groups"),
    ],
)
def test_rows_no_model_takes_are_refused(wrong: RawArrays, said: str, cache: Path) -> None:
    good = {
        "X": np.zeros((4, 2), np.float32),
        "y": np.array([0, 1, 0, 1]),
        "X_test": np.zeros((2, 2), np.float32),
        "y_test": np.array([0, 1]),
    }
    made = functools.partial(lambda parts, raw: parts, Parts(**{**good, **wrong}))
    with pytest.raises(BadInput, match=f"tiny: .*{said}"):
        prepared.prepare(replace(entry(), file_sets=(), prepare=made))
    assert left(cache / "prepared") == []
