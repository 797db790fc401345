"""Files of a source: found in the folder UNFIT_DATA or in the cache, or downloaded and verified.

A download goes to a temporary file beside its place, is measured and hashed as it comes, and is
renamed when it is right. A file whose checksum nobody published is trusted the first time: its
sha256 is written beside it (NAME.sha256), and whatever stands there later must agree with that.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from unfit import disk
from unfit.data.catalog import cache
from unfit.data.catalog.entry import File, Source
from unfit.errors import BadInput, Unavailable
from unfit.progress import ProgressCallback

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte


def find(file: File) -> Path | None:
    """Where a file is: in UNFIT_DATA, else among the downloads."""
    folders = [cache.data_folder(), cache.cache_folder() / "downloads"]
    for folder in folders:
        if folder is not None and (folder / file.name).is_file():
            return folder / file.name
    return None


def choose(sources: Sequence[Source]) -> Source | None:
    """The first source whose files are all here."""
    for source in sources:
        if all(find(file) for file in source.files):
            return source
    return None


def obtain(
    title: str, sources: Sequence[Source], progress: ProgressCallback | None = None
) -> tuple[Source, dict[str, Path]]:
    """A source with its files, verified; downloaded where none is complete here."""
    source = choose(sources)
    if source is None:
        public = (s for s in sources if all(file.url or find(file) for file in s.files))
        source = next(public, None)
        if source is None:
            raise Unavailable(_missing(title, sources))
    paths: dict[str, Path] = {}
    for file in source.files:
        path = find(file)
        if path is None:
            path = _download(file, _missing(title, sources), progress)
        else:
            verify(file, path, progress)
        paths[file.name] = path
    return source, paths


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
    folder = cache.made("downloads")
    path = folder / file.name
    with (
        cache.room(folder, file.size or 0, f"downloading {file.name}"),
        cache.sole(folder, file.name),
    ):
        if path.is_file():  # another process was faster
            verify(file, path, progress)
            return path
        try:
            sha256 = _stream(file, path, progress)
        except urllib.error.HTTPError as error:
            error.close()
            raise Unavailable(f"{file.url} answers {error.code} {error.msg}; {missing}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise Unavailable(f"{file.url} cannot be fetched ({reason}); {missing}") from None
        if file.checksum is None:
            disk.write(path.with_name(f"{path.name}.sha256"), f"{sha256}\n".encode())
    return path


def _stream(file: File, path: Path, progress: ProgressCallback | None) -> str:
    """Bring a file from its address to its place; its sha256."""
    kind, _, wanted = (file.checksum or "sha256:").partition(":")
    digest, sha256, done = hashlib.new(kind), hashlib.sha256(), 0
    request = urllib.request.Request(file.url or "", headers={"User-Agent": "unfit"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else file.size
        room = cache.room(path.parent, total or 0, f"downloading {file.name}")
        with room, disk.replacing(path) as target:
            for chunk in _chunks(answer):
                target.write(chunk)
                digest.update(chunk)
                sha256.update(chunk)
                done += len(chunk)
                if progress:
                    progress(f"downloading {file.name}", done, total or 0)
            if total is not None and done != total:
                raise Unavailable(
                    f"the download of {file.name} ended after {done:,} of {total:,} bytes; "
                    "nothing was kept: run again"
                )
            if file.size is not None and done != file.size:
                raise BadInput(
                    f"{file.name} from {file.url} has {done:,} bytes instead of {file.size:,}; "
                    "nothing was kept"
                )
            if wanted and digest.hexdigest() != wanted:
                raise BadInput(
                    f"{file.name} from {file.url} has the checksum {kind}:{digest.hexdigest()} "
                    f"instead of {file.checksum}; nothing was kept"
                )
    return f"sha256:{sha256.hexdigest()}"


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The bytes that come, up to where they break off."""
    try:
        while chunk := answer.read(CHUNK):
            yield chunk
    except http.client.IncompleteRead as cut:
        yield cut.partial


def _missing(title: str, sources: Sequence[Source]) -> str:
    """Which files to put where, and where they are public."""
    ways = []
    for source in sources:
        names = ", ".join(file.name for file in source.files)
        where = sorted({os.path.dirname(file.url) + "/" for file in source.files if file.url})
        ways.append(names + (f" (public at {' and '.join(where)})" if where else ""))
    folder = cache.data_folder()
    place = f"{folder} (UNFIT_DATA)" if folder else "a folder, and set UNFIT_DATA to it"
    return f"for {title}, put {'; or '.join(ways)} into {place}"
