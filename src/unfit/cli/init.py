"""`unfit init`: look at a table once and write every choice to unfit.toml."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from unfit.cli.common import (
    DEFAULT,
    FORMAT,
    JsonOption,
    WorkspaceOption,
    errors,
    print_json,
    progress_bar,
)
from unfit.errors import BadInput
from unfit.methods import METHODS

if TYPE_CHECKING:
    from unfit.workspace.creation import Created


def init(
    *,
    data: Annotated[
        str, typer.Argument(help="A CSV, Parquet or LIBSVM file, or a database URL (or $NAME).")
    ],
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="Column that names the person of a row. Default: each row is one."),
    ] = None,
    row_id: Annotated[
        str | None,
        typer.Option(help="Column that names a row. Default: its number."),
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help="A label of the positive class; all others are 'rest' (repeatable)."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out (repeatable).")
    ] = None,
    table: Annotated[str | None, typer.Option(help="With a URL: the table to read.")] = None,
    query: Annotated[str | None, typer.Option(help="With a URL: the query to run.")] = None,
    format: Annotated[str | None, FORMAT] = None,
    source_option: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the format (repeatable).", metavar="<KEY=VALUE>"),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Delimiter of a CSV file. Default: detected.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark, . or , . Default: detected.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a CSV file. Default: detected."),
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(help="A column of numbers; other values count as missing (repeatable)."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind of a column: sparse, hash:WIDTH.", metavar="<NAME=KIND>"),
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave out rows without a label or an id."),
    ] = False,
    method: Annotated[
        str, typer.Option(help=f"{', '.join(METHODS.built_in())} or an installed one.")
    ] = "fisher",
    loss: Annotated[
        str, typer.Option(help="logistic, squared-error, squared-hinge ...")
    ] = "logistic",
    sigma: Annotated[
        float, typer.Option(min=0, help="Noise on the weights: hides more, costs accuracy.")
    ] = 0.0,
    epsilon: Annotated[
        float | None,
        typer.Option(min=0, max=100, help="Certify every version: 1, say."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, help="Retrain above this disparity, in percent.")
    ] = 1.0,
    retrain_when: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy that may ask for a retraining (repeatable); the new unfit.toml names "
            "all there are. Default: distance, log_loss and disparity."
        ),
    ] = None,
    test_share: Annotated[float, typer.Option(help="Share of subjects held out.")] = 0.2,
    max_categories: Annotated[
        int, typer.Option(min=1, help="Most categories of a column to encode.")
    ] = 50,
    audit_window: Annotated[
        str, typer.Option(help="How long to keep deleted rows for audits: none, 30d, 12h ...")
    ] = "none",
    store: Annotated[
        str, typer.Option(help="sqlite, or a postgresql:// URL (or $NAME).")
    ] = "sqlite",
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Seed of all randomness. Default: fresh each time.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a workspace from a table of people and write every choice to unfit.toml.

    Nothing is trained yet: read unfit.toml, change what you like, then run `unfit train`.

    Example: unfit init customers.parquet --label churned --subject customer_id
    """
    from unfit.workspace import init as create

    folder = workspace or Path(DEFAULT)
    with errors(), progress_bar(as_json) as progress:
        created = create(
            data,
            folder,
            label=label,
            subject=subject,
            row_id=row_id,
            positive=positive or (),
            ignore=ignore or (),
            table=table,
            query=query,
            format=format,
            options=_options(source_option or ()),
            method=method,
            loss=loss,
            sigma=sigma,
            epsilon=epsilon,
            threshold=threshold,
            retrain_when=retrain_when or (),
            test_share=test_share,
            max_categories=max_categories,
            store=store,
            random_state=random_state,
            audit_window=audit_window,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            numeric=numeric or (),
            **_kinds_of(kind or ()),
            drop_missing=drop_missing,
            progress=progress,
        )
    if as_json:
        print_json(_as_dict(created))
    else:
        _show(created, with_subjects=subject is not None)


def _options(given: Sequence[str]) -> dict[str, str]:
    wrong = next((text for text in given if "=" not in text), None)
    if wrong is not None:
        raise BadInput(f"--source-option {wrong}: must be KEY=VALUE")
    return dict(text.split("=", 1) for text in given)


def _kinds_of(given: Sequence[str]) -> "_Kinds":
    """Columns of pairs, and those whose texts are hashed, with their widths."""
    found: _Kinds = {"sparse": [], "hashed": {}}
    for text in given:
        name, _, kind = text.rpartition("=")
        kind, _, width = kind.partition(":")
        if name and kind == "sparse" and not width:
            found["sparse"].append(name)
        elif name and kind == "hash" and width.isascii() and width.isdigit():
            found["hashed"][name] = int(width)
        else:
            raise BadInput(
                f"--kind {text}: must be NAME=sparse, or NAME=hash:WIDTH such as site=hash:65536"
            )
    return found


class _Kinds(TypedDict):
    sparse: list[str]
    hashed: dict[str, int]


def _kinds(created: "Created") -> dict[str, int]:
    from unfit.data.columns import BAGS

    kinds = ("numeric", "boolean", "category", "sparse", "hash")
    counts = {kind: sum(c.kind == kind for c in created.columns) for kind in kinds}
    return {kind: n for kind, n in counts.items() if n or kind not in BAGS}


def _as_dict(created: "Created") -> dict[str, object]:
    return {
        "workspace": str(created.folder),
        "rows": created.rows,
        "columns": _kinds(created),
        "ignored": list(created.ignored),
        "dropped": created.dropped,
        "remarks": created.remarks,
        "delimiter": created.dialect and created.dialect.delimiter,
        "encoding": created.dialect and created.dialect.encoding,
    }


def _show(created: "Created", with_subjects: bool) -> None:
    from unfit.data.dialect import Dialect
    from unfit.workspace.layout import Layout

    found = ", ".join(f"{n} {kind}" for kind, n in _kinds(created).items() if n)
    typer.echo(f"{created.rows:,} rows, columns: {found}")
    dialect = created.dialect
    if dialect is not None and dialect != Dialect():
        names = {"\t": "tabs", ";": "semicolons", ",": "commas"}
        delimiter = names.get(dialect.delimiter) or repr(dialect.delimiter)
        typer.echo(f"CSV with {delimiter}, encoded as {dialect.encoding}")
    by_comma = [c.name for c in created.columns if c.kind == "numeric" and c.decimal == ","]
    if by_comma:
        typer.echo(f"decimal commas in: {', '.join(by_comma)}")
    if created.dropped:
        typer.echo(f"rows left out because label, subject or id is missing: {created.dropped:,}")
    for remark in created.remarks:
        typer.echo(remark)
    if created.ignored:
        typer.echo(f"left out: {', '.join(created.ignored)}")
    if not with_subjects:
        typer.echo(
            "every row counts as a person of its own; --subject names a column of people instead"
        )
    if created.listed:
        typer.echo(
            "there is a deletion list beside the workspace; whoever it names will be left out"
        )
    typer.echo(f"every choice is in {Layout(created.folder).config}; next: unfit train")
