"""`unfit token`: who may use the service, and for what."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unfit.cli.common import JsonOption, WorkspaceOption, errors, find_workspace, print_json
from unfit.errors import BadInput

if TYPE_CHECKING:
    from unfit.store.tokens import Tokens

app = typer.Typer(
    help="Create, list and revoke tokens: who may use the service, and for what. Roles: predict, "
    "erase, operate, audit, admin. A token's text is shown once, when it is created; only its hash "
    "is kept.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who the token is for, or what.")],
    role: Annotated[
        list[str], typer.Option("--role", "-r", help="A role of the token (repeatable).")
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token. Its text is shown once."""
    with errors():
        from unfit.service.roles import ROLES

        for one in role:
            if one not in ROLES:
                raise BadInput(f"there is no role {one!r}; there are {', '.join(ROLES)}")
        if not name.strip() or len(name) > 200 or not name.isprintable():
            raise BadInput("the token's name must be a line of text of at most 200 characters")
        with _open_tokens(workspace) as (tokens, now):
            made, text = tokens.create(name, role, now)
        if as_json:
            roles = sorted(made.roles)
            print_json({"id": made.public, "name": name, "roles": roles, "token": text})
        else:
            typer.echo(
                f"{text}\n\nkeep it: it is shown only now. Revoke it with "
                f"`unfit token revoke {made.public}`"
            )


@app.command("list")
def list_tokens(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List all tokens, without their texts."""
    with errors(), _open_tokens(workspace) as (tokens, _):
        found = tokens.all()
    if as_json:
        shown = [
            {
                "id": t.public,
                "name": t.name,
                "roles": sorted(t.roles),
                "created_at": t.created_at.isoformat(),
                "revoked_at": t.revoked_at and t.revoked_at.isoformat(),
            }
            for t in found
        ]
        print_json({"tokens": shown})
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table("id", "name", "roles", "since", "revoked", box=SIMPLE_HEAD, padding=(0, 1))
    for t in found:
        revoked = "" if t.revoked_at is None else f"{t.revoked_at:%Y-%m-%d %H:%M}"
        since = f"{t.created_at:%Y-%m-%d}"
        table.add_row(t.public, t.name, " ".join(sorted(t.roles)), since, revoked)
    Console().print(table)


@app.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(help="The token's id, as `unfit token list` shows it.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Refuse a token from now on, and end its sessions."""
    with errors(), _open_tokens(workspace) as (tokens, now):
        gone = tokens.revoke(id, now)
        typer.echo(f"{gone.public} ({gone.name}) is refused from now on")


@contextmanager
def _open_tokens(workspace: Path | None) -> "Iterator[tuple[Tokens, datetime]]":
    from unfit.clock import now
    from unfit.workspace.reader import WorkspaceReader

    with WorkspaceReader(find_workspace(workspace)) as reader:
        yield reader.store.tokens, now()
