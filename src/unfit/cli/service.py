"""`unfit serve`, `unfit worker` and `unfit token`: a workspace for a team."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from unfit.cli.common import JsonOption, WorkspaceOption, errors, find_workspace, say
from unfit.errors import BadInput, Untrained

if TYPE_CHECKING:
    from unfit.store.access import Access
    from unfit.workspace.config import ServiceTable

tokens = typer.Typer(
    help="Tokens: who may use the service, and for what. Roles: predict, erase, operate, audit, "
    "admin. A token's text is shown once, when it is made; only its hash is kept.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def serve(
    host: Annotated[str | None, typer.Option(help="Default: service.host of unfit.toml.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Default: service.port; 0: any free one.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="That answer requests. Default: service.processes."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, max=16, help="That apply erasures; one works, the others wait.")
    ] = 1,
    workspace: WorkspaceOption = None,
) -> None:
    """The HTTP API and the dashboard, with a worker that applies erasures. Ends with Ctrl-C.

    On SQLite out of the box; with store.url of a PostgreSQL more processes and, by `unfit worker`,
    more workers may join. The first time, a token for everything is printed: it is shown once.
    """
    with errors():
        from unfit.service.log import Log, take_all
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
            typer.echo(f"the first token, for everything; it is shown only now:\n\n  {first}\n")
        if not where.startswith("127.") and where != "::1":
            typer.echo(
                "others can reach it, and it speaks plain HTTP: see docs/operations.md on TLS"
            )
        typer.echo("Ctrl-C ends it; `unfit token create` makes more tokens")
        stop = _stopping()
        take_all(Log())
        Supervisor(folder, listening, processes or chosen.processes, workers).run(stop)


def worker(workspace: WorkspaceOption = None) -> None:
    """One more worker, for a workspace on PostgreSQL: it takes over when the one at work is lost.

    Runs where the workspace's folder is at hand. Ends with Ctrl-C.
    """
    with errors():
        from unfit.service.server import check_installed

        check_installed()
        folder = find_workspace(workspace).resolve()
        _open(folder, with_token=False)
        from unfit.service.worker import work

        work(folder, threading.Event())


def _open(folder: Path, with_token: bool = True) -> "tuple[ServiceTable, str | None]":
    """Check that there is a model to serve; a first token if there is none."""
    from unfit.clock import now
    from unfit.store.access import Access
    from unfit.workspace import Workspace

    with Workspace(folder) as ws:
        if ws.store.employed() is None:
            raise Untrained
        access = Access(ws.store)
        some = any(t.revoked_at is None and "admin" in t.roles for t in access.tokens())
        first = None
        if with_token and not some:
            _, first = access.create("first", ["admin"], now())
        return ws.config.service, first


@contextmanager
def _access(workspace: Path | None) -> "Iterator[tuple[Access, datetime]]":
    from unfit.clock import now
    from unfit.store.access import Access
    from unfit.workspace import Workspace

    with Workspace(find_workspace(workspace)) as ws:
        yield Access(ws.store), now()


def _stopping() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    role: Annotated[
        list[str], typer.Option("--role", "-r", help="Once for each role the token is to have.")
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token. Its text is shown once."""
    with errors():
        from unfit.service.roles import ROLES

        for one in role:
            if one not in ROLES:
                raise BadInput(f"there is no role {one!r}; there are {', '.join(ROLES)}")
        if not name.strip() or len(name) > 200 or not name.isprintable():
            raise BadInput("the token's name must be a line of text")
        with _access(workspace) as (access, moment):
            made, text = access.create(name, role, moment)
        if as_json:
            say({"id": made.public, "name": name, "roles": sorted(made.roles), "token": text})
        else:
            typer.echo(f"{text}\n\nkeep it: it is shown only now. Revoke it with "
                       f"`unfit token revoke {made.public}`")  # fmt: skip


@tokens.command("list")
def list_tokens(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """All tokens, without their texts."""
    with errors(), _access(workspace) as (access, _):
        found = access.tokens()
        if as_json:
            say({"tokens": [
                {"id": t.public, "name": t.name, "roles": sorted(t.roles),
                 "created_at": t.created_at.isoformat(),
                 "revoked_at": t.revoked_at and t.revoked_at.isoformat()} for t in found
            ]})  # fmt: skip
            return
        table = Table(box=SIMPLE_HEAD, padding=(0, 1))
        for name in ("id", "name", "roles", "since", "revoked"):
            table.add_column(name)
        for t in found:
            gone = "" if t.revoked_at is None else f"{t.revoked_at:%Y-%m-%d %H:%M}"
            since = f"{t.created_at:%Y-%m-%d}"
            table.add_row(t.public, t.name, " ".join(sorted(t.roles)), since, gone)
        Console().print(table)


@tokens.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(help="As `unfit token list` shows it.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Refuse a token from now on, and end its sessions."""
    with errors(), _access(workspace) as (access, moment):
        gone = access.revoke(id, moment)
        typer.echo(f"{gone.public} ({gone.name}) is refused from now on")


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="The zip file to write.")],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """The model in use as a file: weights, the card that explains them, and how to use both.

    A copy does not forget: whoever is erased later is still in it.
    """
    from unfit import disk
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        if not output.resolve().parent.is_dir():
            raise BadInput(f"there is no folder {output.parent} to put {output.name} in")
        version, content = ws.export()
        disk.write(output, content)
        if as_json:
            say({"version": version, "file": str(output), "bytes": len(content)})
        else:
            typer.echo(f"version {version}: {output}, {len(content):,} bytes")
