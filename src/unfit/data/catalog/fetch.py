"""Files of the catalogue: found in the folder UNFIT_DATA or in the cache, or downloaded by pooch.

A download goes to a temporary folder beside its place, is verified there, and is then renamed. A
file whose checksum nobody published is trusted the first time: its sha256 is written beside it
(NAME.sha256), and whatever stands there later must agree with that.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from http.client import IncompleteRead
from pathlib import Path

from unfit import disk
from unfit.data.catalog import cache
from unfit.data.catalog.entry import File, FileSet
from unfit.errors import BadInput, Unavailable, UnfitError
from unfit.progress import ProgressCallback

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
HEADERS = {"User-Agent": "unfit", "Accept-Encoding": "identity"}  # bytes as they were published


def find(file: File) -> Path | None:
    """Where a file is: in UNFIT_DATA, else among the downloads."""
    folders = [cache.data_folder(), cache.cache_folder() / "downloads"]
    for folder in folders:
        if folder is not None and (folder / file.name).is_file():
            return folder / file.name
    return None


def choose(file_sets: Sequence[FileSet]) -> FileSet | None:
    """The first file set whose files are all here."""
    for file_set in file_sets:
        if all(find(file) for file in file_set.files):
            return file_set
    return None


def obtain(
    title: str, file_sets: Sequence[FileSet], progress: ProgressCallback | None = None
) -> tuple[FileSet, dict[str, Path]]:
    """A file set with its paths, verified; downloaded where none is complete here."""
    file_set = choose(file_sets)
    if file_set is None:
        public = (s for s in file_sets if all(file.url or find(file) for file in s.files))
        file_set = next(public, None)
        if file_set is None:
            raise Unavailable(_missing(title, file_sets))
    paths: dict[str, Path] = {}
    for file in file_set.files:
        path = find(file)
        if path is None:
            path = _download(file, _missing(title, file_sets), progress)
        else:
            verify(file, path, progress)
        paths[file.name] = path
    return file_set, paths


def identity(file: File) -> str:
    """What the rows prepared from a file depend on: known without reading it."""
    if file.checksum is not None:
        return file.checksum
    path = find(file)
    if path is None:
        return "absent"
    if recorded := _recorded(path):
        return recorded
    status = path.stat()
    return f"stat:{status.st_size}-{status.st_mtime_ns}"


def verify(file: File, path: Path, progress: ProgressCallback | None = None) -> None:
    """An error if a file is not the one meant; a wrong download is removed, a person's file not."""
    expected = file.checksum or _recorded(path)
    size = path.stat().st_size
    wrong = None
    if file.size is not None and size != file.size:
        wrong = f"has {size:,} bytes instead of {file.size:,}"
    elif expected is not None:
        found = _checksum(path, expected.partition(":")[0], progress)
        if found != expected:
            wrong = f"has the checksum {found} instead of {expected}"
    if wrong is None:
        return
    if _ours(path):
        disk.remove(path)
        raise BadInput(f"{path} {wrong}; it was removed: run again to download it anew")
    raise BadInput(f"{path} {wrong}; replace it, or leave it out")


def _checksum(path: Path, kind: str, progress: ProgressCallback | None) -> str:
    digest, done, size = hashlib.new(kind), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(f"checking {path.name}", done, size)
    return f"{kind}:{digest.hexdigest()}"


def _recorded(path: Path) -> str | None:
    """The sha256 written when a file without a published checksum was downloaded."""
    beside = path.with_name(f"{path.name}.sha256")
    return beside.read_text().strip() if _ours(path) and beside.is_file() else None


def _ours(path: Path) -> bool:
    """Whether we downloaded a file, and not a person put it there."""
    return path.parent == cache.cache_folder() / "downloads"


def _download(file: File, missing: str, progress: ProgressCallback | None) -> Path:
    folder = cache.ensure_folder("downloads")
    path = folder / file.name
    with (
        cache.require_space(folder, file.size or 0, f"downloading {file.name}"),
        cache.exclusive(folder, file.name),
    ):
        if path.is_file():  # another process was faster
            verify(file, path, progress)
            return path
        with tempfile.TemporaryDirectory(
            prefix=f".{file.name}-", suffix=disk.TEMPORARY, dir=folder
        ) as aside:
            fetched = _retrieve(file, Path(aside), missing, progress)
            if file.checksum is None:
                sha256 = _checksum(fetched, "sha256", progress)
                disk.write(path.with_name(f"{path.name}.sha256"), f"{sha256}\n".encode())
            disk.sync_file(fetched)
            os.replace(fetched, path)
        disk.sync_folder(folder)
    return path


def _retrieve(file: File, folder: Path, missing: str, progress: ProgressCallback | None) -> Path:
    """Bring a file from its address into a folder, verified."""
    try:
        import pooch
        from requests.exceptions import HTTPError, RequestException
    except ImportError:
        raise Unavailable(
            f"downloading {file.name} needs pooch (pip install 'unfit[experiments]'); or, {missing}"
        ) from None
    pooch.get_logger().setLevel("WARNING")
    bar = _Bar(file, folder, progress)
    fetch = pooch.HTTPDownloader(
        progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT, headers=HEADERS
    )
    try:
        found = pooch.retrieve(
            file.url, file.checksum, fname=file.name, path=folder, downloader=fetch
        )
    except HTTPError as error:
        answer = error.response
        said = "an error" if answer is None else f"{answer.status_code} {answer.reason}"
        raise Unavailable(f"{file.url} answers {said}; {missing}") from None
    except RequestException as error:
        first = _first_cause(error)
        if isinstance(first, IncompleteRead):
            left = first.expected or 0
            raise Unavailable(
                f"the download of {file.name} ended after {bar.total - left:,} of {bar.total:,} "
                "bytes; nothing was kept: run again"
            ) from None
        reason = getattr(first, "strerror", None) or first
        raise Unavailable(f"{file.url} cannot be fetched ({reason}); {missing}") from None
    except UnfitError:
        raise
    except ValueError as error:  # pooch says that the checksum is another one
        raise BadInput(f"{file.name} from {file.url} is not the published file: {error}") from None
    size = Path(found).stat().st_size
    if file.size is not None and size != file.size:
        raise BadInput(
            f"{file.name} from {file.url} has {size:,} bytes instead of {file.size:,}; nothing was "
            "kept"
        )
    return Path(found)


def _first_cause(error: BaseException) -> BaseException:
    """What went wrong first, below the libraries' layers."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


class _Bar:
    """What pooch tells of a download: its size, for which there must be room, and its progress."""

    def __init__(self, file: File, folder: Path, progress: ProgressCallback | None) -> None:
        self._stage = f"downloading {file.name}"
        self._folder, self._progress = folder, progress
        self._done, self._total = 0, file.size or 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, nbytes: int) -> None:
        self._total = nbytes or self._total
        with cache.require_space(self._folder, self._total, self._stage):
            pass

    def update(self, nbytes: int) -> None:
        self._done += nbytes
        if self._progress:
            done = min(self._done, self._total) if self._total else self._done
            self._progress(self._stage, done, self._total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


def _missing(title: str, file_sets: Sequence[FileSet]) -> str:
    """Which files to put where, and where they are public."""
    ways = []
    for file_set in file_sets:
        names = ", ".join(file.name for file in file_set.files)
        where = sorted({os.path.dirname(file.url) + "/" for file in file_set.files if file.url})
        ways.append(names + (f" (public at {' and '.join(where)})" if where else ""))
    folder = cache.data_folder()
    place = f"{folder} (UNFIT_DATA)" if folder else "a folder, and set UNFIT_DATA to it"
    return f"for {title}, put {'; or '.join(ways)} into {place}"
