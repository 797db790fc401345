"""`unfit forget`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unfit.cli.common import (
    PURGED_BY,
    JsonOption,
    WorkspaceOption,
    duration,
    errors,
    find_workspace,
    plural,
    print_json,
    progress_bar,
    seconds_since_start,
    shortened,
)
from unfit.errors import BadInput

if TYPE_CHECKING:
    from unfit.workspace.results import Forgotten

_ACTIONS = {
    "update": "the updated model is active",
    "retrain": "retrained",
    "withdraw": "the model is withdrawn",
}


def forget(
    *,
    subject: Annotated[
        list[str] | None, typer.Option(help="A subject to forget (repeatable).")
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="Row ids to forget, separated by commas (repeatable).")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="One row id, which may contain commas (repeatable)."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file with one subject per line (- is stdin), or a JSON list (.json)."),
    ] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read one subject per line from stdin.")
    ] = False,
    by_row: Annotated[
        bool, typer.Option("--by-row", help="The ids of --file and --stdin are row ids.")
    ] = False,
    input_format: Annotated[
        str | None,
        typer.Option(help="Format of --file and --stdin: lines or json. Default: by name."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse the request if an id matches nobody or is repeated."),
    ] = False,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same key is the same request.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget people: unlearn, decide whether to retrain, commit, purge.

    Ids are compared exactly, except for blanks around them. Requests that other processes have
    filed are applied as well. Exit codes: 0 done (ids that match nobody are reported), 2 refused,
    4 refused by --strict because an id matches nobody; nothing changed.

    Example: unfit forget --subject 1042 --subject 77
    """
    from unfit.workspace import Workspace

    with errors():
        listed = _read_ids(file, stdin, input_format)
        people = [*(subject or ()), *(() if by_row else listed)]
        row_ids = [r for some in rows or () for r in some.split(",") if r.strip()]
        row_ids += [*(row or ()), *(listed if by_row else ())]
        if not (people or row_ids or stdin or file):
            raise BadInput(
                "nobody is named; name people with --subject, --file or --stdin, or rows with "
                "--row or --rows"
            )
        with Workspace(find_workspace(workspace)) as ws, progress_bar(as_json) as progress:
            progress("forgetting", 0, 0)
            made = ws.forget(
                subjects=people,
                rows=row_ids,
                key=key,
                strict=strict,
                dry_run=dry_run,
                progress=progress,
            )
            if not dry_run:
                ws.prepare()
    if as_json:
        print_json(made.as_dict() | {"command_seconds": seconds_since_start()})
    else:
        _show(made)


def _show(made: "Forgotten") -> None:
    would_be = "would be" if made.dry_run else "was"
    if made.replayed:
        typer.echo("this request was answered before; nothing was done now")
    if made.subjects:
        typer.echo(
            f"{'would forget' if made.dry_run else 'forgot'} {plural(made.rows, 'row')} of "
            f"{plural(made.subjects, 'id')}{_durations(made)}"
        )
    elif made.action != "keep":  # a model was changed for others, whose requests were waiting
        typer.echo(f"nobody {would_be} forgotten")
    _warn_of_unknown(made)
    if made.repeated:
        typer.echo(f"already forgotten or named twice: {shortened(made.repeated)}")
    if made.action == "keep":
        why = made.reason if made.subjects else f"nobody {would_be} forgotten"
        expected = "expected: " if made.dry_run else ""
        typer.echo(f"{expected}version {made.version} stays active: {why}")
    else:
        about = "expected" if made.dry_run else f"version {made.version}"
        typer.echo(f"{about}: {_ACTIONS[made.action]}: {made.reason}")
    if made.certificate is not None:
        certain = ""
        if made.agreement is not None:
            share = f"{100 * made.agreement:.2f} %"
            certain = f"; {share} of held-out labels would certainly be the same after a retraining"
        typer.echo(
            f"certificate {made.certificate} (`unfit certificate {made.key}` hands it out){certain}"
        )
    if made.kept_until is not None:
        until = made.kept_until.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        typer.echo(
            f"kept for audits until {until} (retention.audit_window): "
            f"{plural(made.kept_rows, 'deleted training row')}, without ids"
        )
    if made.purge_due:
        typer.echo(
            f"the purge is not finished because another process is reading the database; "
            f"{PURGED_BY}"
        )


def _durations(made: "Forgotten") -> str:
    """How long it took to the commit and to the end of the purge, and the command as a whole."""
    if made.seconds is None:
        return ""
    if made.dry_run:
        return f", about {duration(made.seconds)} to the commit, judging by recent ones"
    purge = "" if made.purge_seconds is None else f", purged in {duration(made.purge_seconds)} more"
    whole = f"the whole command took {duration(seconds_since_start())}"
    return f" in {duration(made.seconds)}{purge}; {whole}"


def _warn_of_unknown(made: "Forgotten") -> None:
    """On stderr, so that it is seen where the output goes to a file."""
    if not made.unknown:
        return
    n, of = len(made.unknown), len(made.unknown) + len(made.repeated) + made.subjects
    said = "no id matched anybody" if n == of else f"{n:,} of {of:,} ids matched nobody"
    typer.echo(f"warning: {said}: {shortened(made.unknown)}", err=True)
    for asked, spellings in list(made.near.items())[:5]:
        typer.echo(f"  {asked!r}: did you mean {' or '.join(map(repr, spellings))}?", err=True)
    for asked, spelling in list(made.forgotten_as.items())[:5]:
        typer.echo(f"  {asked!r}: {spelling!r} was forgotten before", err=True)


def _read_ids(file: Path | None, stdin: bool, form: str | None) -> list[str]:
    """The ids of --file and --stdin."""
    if form is None:
        form = "json" if file is not None and file.suffix.lower() == ".json" else "lines"
    if form not in ("lines", "json"):
        raise BadInput(f"--input-format {form}: must be lines or json")
    if stdin or str(file) == "-":
        content = sys.stdin.buffer.read()
    elif file is not None:
        if not file.is_file():
            raise BadInput(f"there is no file {file}")
        content = file.read_bytes()
    else:
        return []
    from unfit.data.ids import id_list

    where = str(file or "standard input")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{where} is not text in UTF-8") from None
    return id_list(text, form, where)
