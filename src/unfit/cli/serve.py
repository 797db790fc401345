"""`unfit serve` and `unfit worker`: a workspace for a team."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unfit.cli.common import WorkspaceOption, errors, find_workspace
from unfit.errors import Untrained

if TYPE_CHECKING:
    from unfit.workspace.config_tables import ServiceTable


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: service.host of unfit.toml.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Default: service.port; 0 takes any free port."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Processes that answer requests. Default: service.processes."
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=0, max=16, help="Processes that apply erasures; one works, the others stand by."
        ),
    ] = 1,
    workspace: WorkspaceOption = None,
) -> None:
    """Serve the HTTP API and the dashboard, with a worker that applies erasures. Ctrl-C stops it.

    Works with SQLite as it is; with PostgreSQL (store.url), more processes and, by `unfit worker`,
    more workers may join. The first time, a token for everything is printed; it is shown once.
    """
    with errors():
        from unfit.service.log import LogOutput
        from unfit.service.server import check_installed, listen
        from unfit.service.supervisor import Supervisor

        check_installed()
        folder = find_workspace(workspace).resolve()
        chosen, first = _open(folder)
        host, port = host or chosen.host, chosen.port if port is None else port
        listening = listen(host, port)
        where, port = listening.getsockname()[:2]
        shown = "127.0.0.1" if where in ("0.0.0.0", "::") else where
        shown = f"[{shown}]" if ":" in shown else shown
        typer.echo(f"dashboard and API: http://{shown}:{port}/")
        if first is not None:
            typer.echo(f"the first token, with all roles; it is shown only now:\n\n  {first}\n")
        if not where.startswith("127.") and where != "::1":
            typer.echo(
                "other machines can reach it, and it speaks plain HTTP; docs/operations.md "
                "explains how to put TLS in front"
            )
        stop = _stop_on_signals()  # before anybody is told how to stop it
        typer.echo("Ctrl-C stops it; `unfit token create` creates more tokens")
        LogOutput().install()
        Supervisor(folder, listening, processes or chosen.processes, workers).run(stop)


def worker(workspace: WorkspaceOption = None) -> None:
    """Run one more worker, for a workspace on PostgreSQL; it takes over if the other is lost.

    The folder of the workspace must be on this machine. Ctrl-C stops it.
    """
    with errors():
        from unfit.service.server import check_installed

        check_installed()
        folder = find_workspace(workspace).resolve()
        _open(folder, with_token=False)
        from unfit.service.worker import work

        work(folder, threading.Event())


def _open(folder: Path, with_token: bool = True) -> "tuple[ServiceTable, str | None]":
    """Check that there is a model to serve; create a first token if nobody has the role admin."""
    from unfit.clock import now
    from unfit.workspace import Workspace

    with Workspace(folder) as ws:
        if ws.store.versions.active() is None:
            raise Untrained
        tokens = ws.store.tokens
        some = any(t.revoked_at is None and "admin" in t.roles for t in tokens.all())
        first = None
        if with_token and not some:
            _, first = tokens.create("first", ["admin"], now())
        return ws.config.service, first


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop
