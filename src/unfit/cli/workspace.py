"""`unfit init`, `train`, `predict`, `forget`, `status`, `audit`, `retrain`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from unfit.cli.common import (
    DEFAULT,
    REMOVES,
    JsonOption,
    WorkspaceOption,
    counted,
    errors,
    find_workspace,
    progress,
    say,
    since_start,
    took,
)
from unfit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unfit.workspace.results import Forgotten

_SAID = {"read": "reading", "encode": "encoding", "train": "training", "rehearse": "rehearsing"}
AUDIT_EXIT = {"forgotten": 0, "not forgotten": 1, "cannot tell": 3}  # 2 is an error


def init(
    data: Annotated[
        str, typer.Argument(help="A CSV, Parquet or LIBSVM file, or a database URL (or $NAME).")
    ],
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="The column that says whose row it is. Default: every row its own."),
    ] = None,
    row_id: Annotated[
        str | None, typer.Option(help="The column that names a row. Default: its number, from 0.")
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help="A label that counts as positive, against the rest (repeatable)."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out (repeatable).")
    ] = None,
    table: Annotated[str | None, typer.Option(help="With a URL: the table to read.")] = None,
    query: Annotated[str | None, typer.Option(help="With a URL: the query to read.")] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, parquet or libsvm; else by name.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Between the cells of a CSV file. Default: found out.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Before a fraction: . or , . Default: found out.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of a CSV file, such as latin-1. Default: found out.")
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(help="A column of numbers; what is none there is missing (repeatable)."),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows without label, subject or id.")
    ] = False,
    method: Annotated[
        str, typer.Option(help="fisher, influence, deltagrad or retrain.")
    ] = "fisher",
    sigma: Annotated[
        float, typer.Option(min=0, help="Noise on the weights: hides more, costs accuracy.")
    ] = 0.0,
    threshold: Annotated[
        float, typer.Option(min=0, help="Disparity, in percent, over which to retrain.")
    ] = 1.0,
    test_share: Annotated[float, typer.Option(help="Share of subjects held out.")] = 0.2,
    max_categories: Annotated[
        int, typer.Option(min=1, help="Of a category column, so many get a column each.")
    ] = 50,
    audit_window: Annotated[
        str, typer.Option(help="Keep deleted rows so long for audits: none, 30d, 12h ...")
    ] = "none",
    store: Annotated[
        str, typer.Option(help="sqlite, or a postgresql:// URL (or $NAME).")
    ] = "sqlite",
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Fix all randomness. Default: fresh each time.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a workspace from a table of people: look at it once, write every choice to unfit.toml.

    Nothing is trained yet: read unfit.toml, change what you like, then run `unfit train`.

    Example: unfit init customers.parquet --label churned --subject customer_id
    """
    from unfit.data.dialect import Dialect
    from unfit.workspace import init as create

    folder = workspace or Path(DEFAULT)
    with errors(), progress(as_json) as update:
        made = create(
            data, folder, label=label, subject=subject, row_id=row_id, positive=positive or (),
            ignore=ignore or (), table=table, query=query, format=format, method=method,
            sigma=sigma, threshold=threshold, test_share=test_share,
            max_categories=max_categories, store=store, random_state=random_state,
            audit_window=audit_window, delimiter=delimiter, decimal=decimal, encoding=encoding,
            numeric=numeric or (), drop_missing=drop_missing,
            progress=update,
        )  # fmt: skip
    kinds = {k: sum(c.kind == k for c in made.columns) for k in ("numeric", "boolean", "category")}
    if as_json:
        say({"workspace": str(folder), "rows": made.rows, "columns": kinds,
             "ignored": list(made.ignored), "dropped": made.dropped, "remarks": made.remarks,
             "delimiter": made.dialect and made.dialect.delimiter,
             "encoding": made.dialect and made.dialect.encoding})  # fmt: skip
        return
    found = ", ".join(f"{n} {k}" for k, n in kinds.items() if n)
    typer.echo(f"{made.rows:,} rows, columns: {found}")
    if made.dialect is not None and made.dialect != Dialect():
        name = {"\t": "tabs", ";": "semicolons", ",": "commas"}.get(made.dialect.delimiter)
        between = name or repr(made.dialect.delimiter)
        typer.echo(f"CSV with {between}, encoded as {made.dialect.encoding}")
    by_comma = [c.name for c in made.columns if c.kind == "numeric" and c.decimal == ","]
    if by_comma:
        typer.echo(f"decimal commas in: {', '.join(by_comma)}")
    if made.dropped:
        typer.echo(f"rows left out because label, subject or row id is missing: {made.dropped:,}")
    for remark in made.remarks:
        typer.echo(remark)
    if made.ignored:
        typer.echo(f"left out: {', '.join(made.ignored)}")
    if subject is None:
        typer.echo("every row is taken as a person of its own (--subject names a column of people)")
    if made.listed:
        typer.echo("a deletion list lies beside it: whoever it names will be left out")
    typer.echo(f"every choice is in {folder / 'unfit.toml'}; next: unfit train")


def train(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Read the source, train the first model, and employ it."""
    _train(workspace, as_json, again=False)


def retrain(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Train again from scratch on the rows that remain, and employ that."""
    _train(workspace, as_json, again=True)


def _train(named: Path | None, as_json: bool, again: bool) -> None:
    from unfit.cli.screen import beside
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(named)) as ws:
        with progress(as_json) as update:
            made = ws.retrain(update) if again else ws.train(update)
            ws.prepare()
        if as_json:
            say(made.as_dict() | {"command_seconds": since_start()})
            return
        spent = ", ".join(f"{_SAID[name]} {took(s)}" for name, s in made.phases.items()
                          if name in _SAID)  # fmt: skip
        typer.echo(
            f"version {made.version} ({made.kind}, {made.method}) is employed after "
            f"{took(made.seconds)} ({spent})\n"
            f"the whole command took {took(since_start())}, of which getting the kernels ready "
            f"{took(made.kernels)}\n"
            f"{made.rows:,} training rows, {made.columns} encoded columns; {made.subjects:,} "
            f"subjects in training and test\n"
            f"test accuracy {beside(made.accuracy, made.held_out)}\n"
            f"slope c {made.slope:.3g}"
        )
        if made.dropped:
            typer.echo(f"rows left out because label, subject or id is missing: {made.dropped:,}")
        for name, count in made.unreadable.items():
            typer.echo(f"column {name!r}: {_no_numbers(count)}")
        if made.left_out:
            typer.echo(f"rows left out because the deletion list names them: {made.left_out:,}")
        if not again:
            typer.echo(f"ids of the forgotten will be listed in {os.path.relpath(ws.list_path)}")


def _no_numbers(count: int) -> str:
    if count == 1:
        return "1 value is no number and counts as missing"
    return f"{count:,} values are no numbers and count as missing"


def predict(
    data: Annotated[
        str, typer.Argument(help="A CSV, Parquet or LIBSVM file, or - for stdin (CSV).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv or .parquet file; - is stdout (CSV).")
    ] = Path("-"),
    format: Annotated[
        str | None, typer.Option(help="csv, parquet or libsvm; else by name.")
    ] = None,
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="For a spreadsheet: texts in the CSV that it would run as formulas (they begin "
            "with =, +, -, @, a tab or a return) get an apostrophe in front.",
        ),
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Predict the rows of a file: class, probabilities, and the version that answered.

    With more than two classes probabilities are one-vs-rest: scores of separate models, scaled to
    sum 1, and less well calibrated than those of a softmax model.

    A category without a column counts as none of those that have one. How many rows hold such a
    category is reported: one that too few training rows hold (preprocessing.min_rows,
    max_categories), or one that no row of this workspace holds.
    """
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        made = ws.predict(data, output, format=format, spreadsheet=spreadsheet)
    said = [f"{made.rows:,} rows predicted by version {made.version}"]
    if made.accuracy is not None:
        said.append(f"{100 * made.accuracy:.2f} % as labelled")
    if made.rare:
        said.append(f"{made.rare:,} with a category too rare for a column of its own")
    if made.unseen:
        said.append(f"{made.unseen:,} with a category never seen")
    if made.unreadable:
        said.append(_no_numbers(made.unreadable))
    typer.echo(", ".join(said), err=True)
    if made.formulas and output.suffix != ".parquet":
        typer.echo(
            f"warning: a spreadsheet would take {made.formulas:,} of the texts for formulas; "
            "--spreadsheet writes them so that it does not",
            err=True,
        )


def forget(
    subject: Annotated[
        list[str] | None, typer.Option(help="A subject to forget (repeatable).")
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="Row ids to forget, separated by commas (repeatable).")
    ] = None,
    row: Annotated[
        list[str] | None, typer.Option(help="A row id, commas and all (repeatable).")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file with one subject a line (- is stdin), or a JSON list (.json)."),
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="One subject a line from stdin.")] = False,
    by_row: Annotated[
        bool, typer.Option("--by-row", help="Ids of --file and --stdin are row ids.")
    ] = False,
    input_format: Annotated[
        str | None, typer.Option(help="Of --file and --stdin: lines, or json; else by name.")
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

    An id is compared as it stands, but for blanks around it. Requests that other processes have
    filed are applied along. Exit codes: 0 done (ids that match nobody are reported), 2 refused,
    4 refused by --strict because an id matches nobody; nothing changed.

    Example: unfit forget --subject 1042 --subject 77
    """
    from unfit.workspace import Workspace

    with errors():
        given = _given(file, stdin, input_format)
        named = [r for some in rows or () for r in some.split(",") if r.strip()]
        people = [*(subject or ()), *(given if not by_row else ())]
        named += [*(row or ()), *(given if by_row else ())]
        if not (people or named or stdin or file):
            raise BadInput(
                "whom? Name people with --subject, --file or --stdin, or rows with --row or --rows"
            )
        with Workspace(find_workspace(workspace)) as ws, progress(as_json) as update:
            update("forgetting", 0, 0)
            made = ws.forget(
                subjects=people,
                rows=named,
                key=key,
                strict=strict,
                dry_run=dry_run,
                progress=update,
            )
            if not dry_run:
                ws.prepare()
    if as_json:
        say(made.as_dict() | {"command_seconds": since_start()})
        return
    if made.replayed:
        typer.echo("this request was answered before; nothing was done now")
    if made.subjects:
        what = "would forget" if dry_run else "forgot"
        typer.echo(
            f"{what} {counted(made.rows, 'row')} of {counted(made.subjects, 'id')}"
            + _durations(made)
        )
    elif made.action != "keep":  # for others, whose requests waited
        typer.echo(f"nobody {'would be' if dry_run else 'was'} forgotten")
    _warn_of_unknown(made)
    if made.repeated:
        typer.echo(f"already forgotten or named twice: {_few(made.repeated)}")
    action = {"employ": "the updated model is employed", "retrain": "retrained",
              "withdraw": "the model is withdrawn"}  # fmt: skip
    if made.action == "keep":
        why = "they were held out, not trained on"
        if not made.subjects:
            why = f"nobody {'would be' if dry_run else 'was'} forgotten"
        typer.echo(f"{'expected: ' if dry_run else ''}version {made.version} stays in use: {why}")
    elif dry_run:
        typer.echo(f"expected: {action[made.action]}: {made.reason}")
    else:
        typer.echo(f"version {made.version}: {action[made.action]}: {made.reason}")
    if made.kept_until is not None:
        until = made.kept_until.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        typer.echo(
            f"kept for audits until {until} (retention.audit_window): "
            f"{counted(made.kept_rows, 'deleted training row')}, without ids"
        )
    if made.purge_due:
        typer.echo(f"the purge is not finished (somebody reads the database); {REMOVES}")


def _durations(made: "Forgotten") -> str:
    """How long it took to the commit and to the end of the purge, and the command as a whole."""
    if made.seconds is None:
        return ""
    if made.dry_run:
        return f", about {took(made.seconds)} to the commit, as the last ones of its kind"
    purge = "" if made.purge_seconds is None else f", purged in {took(made.purge_seconds)} more"
    return f" in {took(made.seconds)}{purge}; the whole command took {took(since_start())}"


def _warn_of_unknown(made: "Forgotten") -> None:
    """On stderr, so that it is seen where the output goes to a file."""
    if not made.unknown:
        return
    n, of = len(made.unknown), len(made.unknown) + len(made.repeated) + made.subjects
    said = "no id matched anybody" if n == of else f"{n:,} of {of:,} ids matched nobody"
    typer.echo(f"warning: {said}: {_few(made.unknown)}", err=True)
    for asked, spellings in list(made.near.items())[:5]:
        there = " or ".join(map(repr, spellings))
        typer.echo(f"  {asked!r}: did you mean {there}?", err=True)
    for asked, spelling in list(made.forgotten_as.items())[:5]:
        typer.echo(f"  {asked!r}: {spelling!r} was forgotten before", err=True)


def _few(ids: "Sequence[str]") -> str:
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return ", ".join(i if len(i) <= 40 else f"{i[:37]}..." for i in ids[:5]) + more


def _given(file: Path | None, stdin: bool, form: str | None) -> list[str]:
    """The ids of --file and --stdin."""
    from unfit.data.ids import id_list

    if form is None:
        form = "json" if file is not None and file.suffix.lower() == ".json" else "lines"
    if form not in ("lines", "json"):
        raise BadInput(f"--input-format {form}: ids come as lines or as json")
    if stdin or str(file) == "-":
        content = sys.stdin.buffer.read()
    elif file is not None:
        if not file.is_file():
            raise BadInput(f"there is no file {file}")
        content = file.read_bytes()
    else:
        return []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{file or 'standard input'} is not text in UTF-8") from None
    return id_list(text, form, str(file or "standard input"))


def status(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """One screen: the model in use, who is left, what waits, what was decided and why."""
    from unfit.cli.screen import status_screen
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        found = ws.status()
    if as_json:
        say(found.as_dict())
    else:
        status_screen(found, Console())


def accept_loss(
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept it. Without this, say what is lost.")
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on after the deletion list or its key was lost for good. First look for a copy of them!

    Says what is lost; with --yes, takes the list and the key as they are now, or begins new ones.
    Everybody who is forgotten in this workspace stays forgotten.
    """
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        lost = ws.accept_loss(dry_run=not yes)
    if as_json:
        say({"lost": None if lost is None else lost.as_dict(), "accepted": yes})
        return
    if lost is None:
        typer.echo("nothing is lost: the deletion list and its key are as they should be")
        return
    for sentence in lost.consequences:
        typer.echo(sentence)
    if yes:
        typer.echo("accepted: the workspace goes on with the list and the key as they are now")
    else:
        typer.echo("nothing was changed; `unfit accept-loss --yes` accepts this")


def audit(
    deleted: Annotated[
        Path | None,
        typer.Option(
            help="The deleted rows with their ids and labels, if you have them (CSV or Parquet)."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Percent of AccDis, and points of probability. Default: policy.disparity.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Retrainings for AccDis. Default: 5 with noise, else 1."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where the page goes. Default: reports/ in the workspace.")
    ] = None,
    random_state: Annotated[int | None, typer.Option(min=0, help="Of the retrainings.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retrain independently and compare: did the model forget? The model in use is not touched.

    Exit codes: 0 forgotten, 1 not forgotten, 2 an error, 3 the audit cannot tell.
    """
    from unfit import disk
    from unfit.cli.screen import audit_screen
    from unfit.pages.audit import audit_page
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        with progress(as_json) as update:
            update("retraining independently", 0, 0)
            made = ws.audit(
                deleted=deleted, threshold=threshold, draws=draws, random_state=random_state
            )
        page = report or ws.folder / "reports" / f"audit-{made.version}.html"
        if report is None:
            disk.private_folder(page.parent)
        elif not page.resolve().parent.is_dir():
            raise BadInput(f"there is no folder {page.parent} to put {page.name} in")
        disk.write(page, audit_page(made, ws.status()).encode())
    content: dict[str, Any] = made.as_dict() | {"page": str(page)}
    if as_json:
        say(content)
    else:
        audit_screen(made, Console())
        typer.echo(f"page: {page}")
    code = AUDIT_EXIT[made.outcome]
    if code:
        raise typer.Exit(code)
