"""The scheduler and its workers: connected once for all engines of a process, checked, waited for,
and their failures told in a sentence.

A worker that dies is the scheduler's matter: it computes again what is missing. Nothing is
scattered, no actor is made, and no task is tied to one worker: one that prefers a worker runs
elsewhere when that one is gone. May know Dask.
"""

import logging
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import distributed
import numpy as np
from distributed import Client, Future, KilledWorker
from distributed.scheduler import NoWorkerError

from unfit.engines.cluster.settings import Dask, installed_version, protected
from unfit.engines.cluster.tasks import facts, other_version, spilling
from unfit.errors import Unavailable, UnfitError, UnreadableThere

T = TypeVar("T")
_CONNECT = "10s"  # how long a scheduler may take to answer
_INTERVAL = 0.001  # seconds between two messages to it
_LOOK = 1.0  # seconds between two looks at whether anybody is still working
_known: "weakref.WeakValueDictionary[Dask, Cluster]" = weakref.WeakValueDictionary()


class Cluster:
    """A connection that is made when it is needed, and again after it was lost.

    connections: how often it was made. What one of them knew is lost with it.
    """

    def __init__(self, settings: Dask) -> None:
        self.settings = settings
        self.connections = 0
        self._client: Client | None = None
        self._trusted: set[str] = set()  # addresses that were looked at

    @property
    def address(self) -> str:
        return self.settings.address

    def client(self) -> Client:
        if self._client is None or self._client.status != "running":
            self.drop()
            self._client = self._connected()
            weakref.finalize(self, _close, self._client)
            self.connections += 1
        return self._client

    def drop(self) -> None:
        """Forget a connection that is of no use any more."""
        if self._client is not None:
            _close(self._client)
            self._client = None

    def _connected(self) -> Client:
        # What becomes of a failure is told by whoever meets it: tracebacks beside that help nobody.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            client = Client(self.address, set_as_default=False, timeout=_CONNECT)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise Unavailable(
                f"no Dask scheduler answers at {self.address} ({_first_line(error)}); start one, "
                "or correct the address"
            ) from None
        try:
            self._check(client)
        except BaseException as error:
            _close(client)
            if isinstance(error, OSError):
                raise self._went_away() from None
            raise
        if client.scheduler_comm is not None:  # else it waits 10 ms after each message it sent
            client.scheduler_comm.interval = _INTERVAL
        return client

    def _check(self, client: Client) -> None:
        """Refuse a cluster that cannot do the work, or would leave rows behind."""
        version = _asked_for_version()
        try:
            self._trust([client.scheduler_info()["address"]])
            self._check_version("the scheduler", client.run_on_scheduler(version))
            client.wait_for_workers(1, timeout=self.settings.no_workers_timeout)
            self._trust(client.nthreads())
            for worker, found in self._said_by_each(client, version):
                self._check_version(f"the worker {worker}", found)
            for worker, said in self._said_by_each(client, facts):
                if said.spills:
                    raise Unavailable(spilling(f"the worker {worker}", said.spills[0]))
        except ModuleNotFoundError as error:
            raise self._lacks("the scheduler", error) from None
        except TimeoutError:
            raise self._no_workers() from None
        except (UnfitError, OSError):
            raise
        except Exception as error:
            raise Unavailable(
                f"the cluster at {self.address} does not answer as this unfit "
                f"{installed_version()} expects ({_first_line(error)}); install the same version "
                "everywhere"
            ) from error

    def _said_by_each(self, client: Client, function: Callable[[], T]) -> Iterator[tuple[str, T]]:
        """function() of every worker, or in a sentence why it says nothing."""
        for worker, said in client.run(function, on_error="return").items():
            if isinstance(said, OSError):  # it has died meanwhile; `load` looks at who comes
                continue
            if "No module named" in str(said):
                raise self._lacks(f"the worker {worker}", said)
            if isinstance(said, BaseException):
                raise Unavailable(f"the worker {worker} cannot work: {_first_line(said)}")
            yield worker, said

    def _trust(self, addresses: Iterable[str]) -> None:
        """Refuse a scheduler or workers to whom rows and code would travel in plain text."""
        if self.settings.allow_plaintext:
            return
        new = set(addresses) - self._trusted
        for address in sorted(new):
            if not protected(address):
                raise Unavailable(
                    f"{address} belongs to the cluster at {self.address}, but is not on this "
                    "machine alone and does not use TLS, and the protocol carries rows and code; "
                    "start the cluster with certificates (tls://), or bind it to 127.0.0.1 "
                    "(--host), or say allow_plaintext if the network is trusted"
                )
        self._trusted |= new

    def _check_version(self, who: str, version: str) -> None:
        if version != installed_version():
            raise Unavailable(other_version(who, version, installed_version()))

    def _lacks(self, who: str, error: BaseException) -> Unavailable:
        return Unavailable(
            f"{who} cannot import what it needs ({_first_line(error)}); install unfit[cluster], "
            "and the packages of your own losses, on the scheduler and every worker"
        )

    def _no_workers(self) -> Unavailable:
        return Unavailable(
            f"the cluster at {self.address} has had no worker for "
            f"{self.settings.no_workers_timeout:g} seconds; start workers and run this again"
        )

    def workers(self) -> dict[str, int]:
        """The threads of every worker, by its address."""
        client = self.client()
        return self._guarded((), lambda: self._workers(client))

    def _workers(self, client: Client) -> dict[str, int]:
        found = dict(client.nthreads())
        self._trust(found)
        return found

    def submitted(self, submit: Callable[[Client], T]) -> T:
        """What submit(client) makes: tasks that nobody waits for yet."""
        client = self.client()
        return self._guarded((), lambda: submit(client))

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """What tasks return, in their order; however long that takes while anybody works."""
        client = self.client()
        self.wait(futures)
        return self._guarded(futures, lambda: list(client.gather(list(futures))))

    def wait(self, futures: Sequence[Future], needed: Collection[str] = ()) -> bool:
        """Until tasks are done, or have failed; False where a worker went away that they need."""
        client = self.client()
        return self._guarded(futures, lambda: self._wait(client, futures, needed))

    def run_anywhere(self, futures: Sequence[Future]) -> None:
        """Tasks that preferred a worker do so no more, should they have to be computed again."""
        client = self.client()
        free = {future.key: None for future in futures}
        scheduler: Any = client.scheduler
        self._guarded(futures, lambda: client.sync(scheduler.set_restrictions, worker=free))

    def _guarded(self, futures: Sequence[Future], what: Callable[[], T]) -> T:
        """A failure is told in a sentence, and the tasks are given up."""
        client = self.client()
        try:
            return what()
        except (UnfitError, KeyboardInterrupt):
            client.cancel(list(futures), force=True)
            raise
        except Exception as error:
            raise self._told(error, futures) from error

    def _wait(self, client: Client, futures: Sequence[Future], needed: Collection[str]) -> bool:
        idle_since: float | None = None
        while True:
            try:
                with client.as_current():
                    distributed.wait(list(futures), timeout=_LOOK)
            except TimeoutError:
                pass
            else:
                return True
            if client.status != "running":
                raise OSError("the connection was lost")
            workers = self._workers(client)
            if not workers.keys() >= set(needed):
                return False
            if workers:
                idle_since = None
                continue
            now = time.monotonic()
            idle_since = now if idle_since is None else idle_since
            if now - idle_since > self.settings.no_workers_timeout:
                raise self._no_workers()

    def _told(self, error: Exception, futures: Sequence[Future]) -> Exception:
        """The failure of a task or of the connection, for people."""
        if isinstance(error, ModuleNotFoundError):
            return self._lacks("a worker", error)
        if isinstance(error, NoWorkerError):
            return self._no_workers()
        if isinstance(error, KilledWorker):
            return Unavailable(
                "workers died again and again on the same rows, mostly for lack of memory; give "
                "them more, or make more shards, and run this again"
            )
        if isinstance(error, MemoryError):
            return Unavailable("a worker has too little memory; add memory or workers")
        connected = self._client is not None and self._client.status == "running"
        if connected and any(future.status == "error" for future in futures):
            return _failed(error)
        lost = isinstance(error, OSError | distributed.CancelledError | TimeoutError)
        if lost or not connected:
            self.drop()
            return self._went_away()
        return error

    def _went_away(self) -> Unavailable:
        return Unavailable(
            f"the scheduler at {self.address} went away; nothing was changed: start it, and run "
            "this again"
        )


def connect(settings: Dask) -> Cluster:
    """The cluster of these settings: one for all engines of this process."""
    found = _known.get(settings)
    if found is None:
        found = _known[settings] = Cluster(settings)
    return found


def disconnect_all() -> None:
    """Close the connections of this process; the next pass of an engine makes a new one."""
    for cluster in list(_known.values()):
        cluster.drop()


def _failed(error: Exception) -> Exception:
    """The error of a task, which a worker has sent: that of numbers means something here."""
    if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
        return error
    if isinstance(error, OSError):
        return UnreadableThere(
            f"a worker cannot read or write a file ({_first_line(error)}); every worker needs the "
            "same storage under the same path, with the rights of the user who owns the rows"
        )
    return Unavailable(f"a worker failed ({type(error).__name__}: {_first_line(error)})")


def _asked_for_version() -> Callable[[], str]:
    """A function that goes to another process as a whole: what it imports by name there may be that
    of another version."""

    def version() -> str:
        from importlib import import_module

        return str(import_module("unfit").__version__)

    return version


def _close(client: Client) -> None:
    try:
        client.close(timeout=2)
    except Exception:  # it is of no use any more, in whatever state it is
        return


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
