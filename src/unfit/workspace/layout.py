"""The folder of a workspace: the name of every file and folder in it, and of those beside it.

unfit.toml             every choice
unfit.db               the records, unless they are kept in PostgreSQL
unfit.lock, -N         the writer's lock, and the same in its Nth term
signing.key            signs certificates, unless unfit.toml names another file
unfit.trained          a mark: this workspace has had a model
data/rows-N/           one generation of rows
artifacts/             models, statistics and cards, named by their SHA-256
retained/N.parquet     rows that left with version N, kept for audits
reports/audit-N.html   pages of audits
../NAME.forgotten      the deletion list, with its key in ../NAME.forgotten.key
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unfit import disk

CONFIG_FILE = "unfit.toml"


def deletion_list_name(folder: Path) -> str:
    """The file name of a workspace's deletion list, unless unfit.toml names another."""
    return f"{folder.resolve().name}.forgotten"


def key_of(deletion_list: Path) -> Path:
    """The file that holds the key of a deletion list."""
    return deletion_list.with_name(f"{deletion_list.name}.key")


def lock_of_term(lock: Path, term: int) -> Path:
    """The writer's lock file in a term; the first term has no number."""
    return lock if term == 0 else lock.with_name(f"{lock.name}-{term}")


@dataclass(frozen=True)
class Layout:
    """Where the files of one workspace are."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / CONFIG_FILE

    @property
    def database(self) -> Path:
        return self.folder / "unfit.db"

    @property
    def lock(self) -> Path:
        return self.folder / "unfit.lock"

    @property
    def signing_key(self) -> Path:
        return self.folder / "signing.key"

    @property
    def trained_mark(self) -> Path:
        return self.folder / "unfit.trained"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def retained(self) -> Path:
        return self.folder / "retained"

    def generation(self, name: str) -> Path:
        """The folder of one generation of rows."""
        return self.data / name

    def retained_rows(self, version: int) -> Path:
        """The rows that left with a version, by its number."""
        return self.retained / f"{version}.parquet"

    def audit_report(self, version: int) -> Path:
        return self.folder / "reports" / f"audit-{version}.html"

    def temporary(self) -> Iterator[Path]:
        """Files that were being written when a process died."""
        yield from self.folder.glob(f".*{disk.TEMPORARY}")
        yield from self.data.glob(f"*/.*{disk.TEMPORARY}")

    def restrict(self) -> None:
        """Take away what an earlier release, or a copy, has left open to other users."""
        disk.owner_only(self.folder)
        try:
            paths = [*self.folder.iterdir(), *self.folder.glob("*/*"), *self.data.glob("*/*")]
        except OSError:
            return
        for path in paths:
            disk.owner_only(path)


def generation_name(number: int, term: int | None) -> str:
    """The rows of a version. Each term of the lock has names of its own, so that a process that has
    lost the lock shares no file with the next holder."""
    return f"rows-{number}-{term}" if term else f"rows-{number}"
