"""Which cluster, and where rows lie that its workers are to see. Imports nothing of Dask."""

import ipaddress
import os
from dataclasses import dataclass
from importlib import import_module
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from unfit.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from unfit.core.objective import Rows
    from unfit.engines.base import Engine
    from unfit.readers import Readers
    from unfit.row_files import RowFiles

ADDRESS = "UNFIT_DASK"


def installed_version() -> str:
    """Of unfit, in the process that asks."""
    return str(import_module("unfit").__version__)


def protected(address: str) -> bool:
    """Whether nobody else on the network can read what goes to an address."""
    parts = _parts_of(address)
    return (parts is not None and parts.scheme == "tls") or is_loopback(address)


def is_loopback(address: str) -> bool:
    parts = _parts_of(address)
    host = "" if parts is None else parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parts_of(address: object) -> SplitResult | None:
    """None where that is no address with a host, or where no machine can have its port."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else None
        return parts if parts and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_positive(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf


@dataclass(frozen=True)
class Dask:
    """The engine "dask": `LogisticRegression(engine=unfit.engines.Dask("tls://..."))`.

    address: of a running scheduler. folder: on storage that all workers see under the same path,
    where rows in memory are written, and removed with the model; not needed where the cluster runs
    on this machine. shards: ranges of rows, each one task a pass; None is three for each thread of
    the cluster, and another number changes sums in their last digits. allow_plaintext: take an
    address that is neither tls:// nor of this machine, although whoever can reach its port can
    then run code on it and read rows on their way. no_workers_timeout: seconds without a single
    worker after which work is given up.
    """

    address: str
    folder: str | None = None
    shards: int | None = None
    allow_plaintext: bool = False
    no_workers_timeout: float = 60.0

    takes_both: ClassVar[bool] = True  # dense rows and sparse ones
    walks_through_rows: ClassVar[bool] = False  # in mini-batches: too many round trips

    def __post_init__(self) -> None:
        parts = _parts_of(self.address)
        if parts is None or parts.scheme not in ("tcp", "tls"):
            raise BadInput(
                f"{self.address!r} is not the address of a Dask scheduler; it looks like "
                "tls://scheduler:8786"
            )
        if self.shards is not None and not _is_count(self.shards):
            raise BadInput(f"shards must be a whole number of at least 1, got {self.shards!r}")
        if not _is_positive(self.no_workers_timeout):
            raise BadInput(
                "no_workers_timeout must be a positive number of seconds, got "
                f"{self.no_workers_timeout!r}"
            )
        if not protected(self.address) and not self.allow_plaintext:
            raise BadInput(
                f"{self.address} is not on this machine and does not use TLS, but the protocol "
                "carries rows and code; start the cluster with certificates (tls://), or say "
                "allow_plaintext if the network is trusted"
            )

    @property
    def local(self) -> bool:
        """Whether the scheduler listens on this machine's loopback alone."""
        return is_loopback(self.address)

    def __call__(self, rows: "Rows", n_classes: int, /) -> "Engine":
        """The engine that holds these rows, which are written where all workers see them."""
        return self._make(rows, n_classes, None)

    def of_files(self, rows: "Rows", n_classes: int, files: "RowFiles") -> "Engine":
        """The engine of rows that lie in files already."""
        return self._make(rows, n_classes, files)

    def write(self, X: Any, n: int, dtype: Any) -> Any:
        """The rows of a Dask array or data frame, of which there must be n, written by the workers
        that have them; see cluster.collections.Written."""
        folder = self._module("engine").new_folder(self)
        return self._module("collections").write_collection(X, n, dtype, folder, self)

    def readers(self) -> "Readers":
        """The workers, as processes that read and write files at once."""
        made: Readers = self._module("readers").ClusterReaders(self)
        return made

    def gathered(self, values: Any) -> Any:
        """A small Dask collection, such as labels, in memory."""
        return self._module("collections").gathered(values, self)

    def _make(self, rows: "Rows", n_classes: int, files: "RowFiles | None") -> "Engine":
        made: Engine = self._module("engine").make(rows, n_classes, files, self)
        return made

    @staticmethod
    def _module(name: str) -> Any:
        try:
            return import_module(f"unfit.engines.cluster.{name}")
        except ModuleNotFoundError as error:
            raise Unavailable(
                f"The engine 'dask' needs packages that are not installed ({error}); install "
                "unfit[cluster]."
            ) from None


class _OfEnvironment:
    """The engine "dask" by its name alone: the cluster that the variable UNFIT_DASK names."""

    takes_both = True
    walks_through_rows = False

    def __call__(self, rows: "Rows", n_classes: int, /) -> "Engine":
        return self._settings()(rows, n_classes)

    def of_files(self, rows: "Rows", n_classes: int, files: "RowFiles") -> "Engine":
        return self._settings().of_files(rows, n_classes, files)

    def readers(self) -> "Readers":
        return self._settings().readers()

    def _settings(self) -> Dask:
        address = os.environ.get(ADDRESS)
        if not address:
            raise Unavailable(
                "The engine 'dask' needs the address of a scheduler: "
                "engine=unfit.engines.Dask('tls://...'), address under [engine] in unfit.toml, or "
                f"the variable {ADDRESS}."
            )
        return Dask(address)


of_environment = _OfEnvironment()
