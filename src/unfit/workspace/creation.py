"""`unfit init`: look at a source, propose every choice, write unfit.toml."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unfit import disk
from unfit.data.dialect import Dialect
from unfit.data.profile import Look, Profile, Wanted, look, looks_like_an_id
from unfit.data.sources import Location, Source, open_source
from unfit.data.values import DATE_ADVICE
from unfit.errors import BadInput
from unfit.lifecycle.policies import POLICIES
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS
from unfit.progress import ProgressCallback
from unfit.workspace import config as configuration
from unfit.workspace import toml
from unfit.workspace.config_tables import (
    CertifyTable,
    ModelTable,
    RolesTable,
    SourceTable,
    StoreTable,
)
from unfit.workspace.layout import Layout, deletion_list_name
from unfit.workspace.policy_table import RETRAIN_WHEN, PolicyTable
from unfit.workspace.signing import key_name, make_key

MAX_COLUMNS = 20_000


@dataclass(frozen=True)
class Created:
    """What `init` found and made."""

    folder: Path
    rows: int
    columns: Sequence[Profile]
    label: Profile
    ignored: Sequence[str]
    listed: bool  # a deletion list lies there already
    dialect: Dialect | None  # of a CSV file
    dropped: int  # rows without a label, subject or row id

    @property
    def remarks(self) -> list[str]:
        """Remarks on columns that are read in a way that a person may not expect."""
        return [said for column in self.columns if (said := column.remark()) is not None]


def init(
    source: str | Path,
    folder: str | Path = "unfit-workspace",
    *,
    label: str | None = None,
    subject: str | None = None,
    row_id: str | None = None,
    positive: Sequence[str] = (),
    ignore: Sequence[str] = (),
    table: str | None = None,
    query: str | None = None,
    format: str | None = None,
    options: Mapping[str, str | int | float | bool] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    numeric: Sequence[str] = (),
    sparse: Sequence[str] = (),
    hashed: Mapping[str, int] | None = None,
    drop_missing: bool = False,
    missing: Sequence[str] = ("", "NA", "NaN", "null", "?"),
    method: str = "fisher",
    loss: str = "logistic",
    sigma: float = 0.0,
    epsilon: float | None = None,
    delta: float = 1e-5,
    noise: float = 1e-3,
    threshold: float = 1.0,
    retrain_when: Sequence[str] = (),
    test_share: float = 0.2,
    max_categories: int = 50,
    norm: str | None = None,
    store: str = "sqlite",
    random_state: int | None = None,
    audit_window: str = "none",
    progress: ProgressCallback | None = None,
) -> Created:
    """Make a workspace: one pass over the source, then unfit.toml. Trains nothing.

    options: settings of an installed format. delimiter, encoding, decimal: of a CSV file; detected
    if they are not given. numeric: columns of numbers, in which any other text counts as missing.
    sparse: columns of pairs that are written as text. hashed: columns whose texts are hashed, with
    their widths. drop_missing: leave rows without a label, subject or row id out, instead of
    refusing them. retrain_when: the policies that may ask for a retraining; by default three of
    them. epsilon: every version is released with noise and a signed certificate, for which a key is
    made.
    """
    folder = Path(folder)
    _check_folder(folder)
    _check_choices(decimal=decimal, method=method, loss=loss, test_share=test_share, store=store)
    _check_policies(retrain_when)
    asked = replace(
        _source(source, folder, table, query),
        format=format,
        missing=tuple(missing),
        delimiter=delimiter,
        encoding=encoding,
        options=dict(options or {}),
    )
    rows = open_source(_location(asked, source))
    if preferred := rows.preferred_options():
        asked = replace(asked, options={**asked.options, **preferred})
        rows = open_source(_location(asked, source))
    asked = _with_dialect(asked, rows)
    label = _label(label, rows)
    roles = RolesTable(label, subject, row_id, tuple(positive), drop_missing)
    _check_roles(rows, roles, ignore)
    hashed = dict(hashed or {})
    features = _features(rows, roles, ignore, [*numeric, *sparse, *hashed])
    wanted = Wanted(
        features=[*features, label],
        required=[name for name in (label, subject, row_id) if name],
        named=[name for name in (subject, row_id) if name],
        sparse=sparse,
        hashed=hashed,
        drop=drop_missing,
        decimal=decimal,
    )
    looked = look(rows, wanted, progress)
    _check_lacking(looked, roles, rows.name)
    found = {p.name: p for p in looked.columns}
    _check_label(found[label], roles)
    _make_numeric(found, numeric, set(features), rows.name)
    chosen, ignored = _choose([found[name] for name in features], rows.name)
    model = ModelTable(method=method, loss=loss, sigma=sigma, random_state=random_state)
    policy = PolicyTable(retrain_when=tuple(retrain_when) or RETRAIN_WHEN, disparity=threshold)
    config = toml.new_config(
        asked,
        roles,
        chosen,
        model=model,
        policy=policy,
        store=StoreTable(store),
        test_share=test_share,
        max_categories=max_categories,
        norm=norm or ("fitted" if METHODS[method].replays else "none"),
        retention=configuration.retention(audit_window, f"../{deletion_list_name(folder)}"),
        certify=CertifyTable(epsilon=epsilon, delta=delta, noise=noise),
    )
    _write(folder, toml.render(config, chosen))
    if epsilon is not None:
        make_key(config.key_path(folder), key_name(config.id))
    return Created(
        folder=folder,
        rows=looked.rows,
        columns=chosen,
        label=found[label],
        ignored=[*ignore, *ignored],
        listed=config.list_path(folder).exists(),
        dialect=rows.dialect,
        dropped=looked.dropped,
    )


def _check_folder(folder: Path) -> None:
    if Layout(folder).config.exists():
        raise BadInput(f"{folder} is a workspace already; name another folder (--workspace)")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; a workspace is a folder")


def _check_choices(
    *, decimal: str | None, method: str, loss: str, test_share: float, store: str
) -> None:
    if decimal not in (None, ".", ","):
        raise BadInput(f"--decimal {decimal}: the decimal separator is '.' or ','")
    if method not in METHODS:
        raise BadInput(f"--method {method}: there are {', '.join(METHODS)}")
    if loss not in LOSSES:
        raise BadInput(f"--loss {loss}: there are {', '.join(LOSSES)}")
    if not 0 < test_share < 1:
        raise BadInput(f"--test-share {test_share:g}: a share is between 0 and 1, such as 0.2")
    if not store.startswith(("sqlite", "postgres", "$")):
        raise BadInput(f"--store {store}: unfit keeps its records in sqlite or a postgresql:// URL")


def _check_policies(retrain_when: Sequence[str]) -> None:
    for name in retrain_when:
        if name not in POLICIES:
            raise BadInput(f"--retrain-when {name}: there are {', '.join(POLICIES)}")


def _label(given: str | None, rows: Source) -> str:
    """The name of the column to predict; by default 'label', if there is one."""
    names = rows.columns()
    if given is None and "label" not in names:
        raise BadInput(
            f"--label is missing: which column is to be predicted? There are {_few(names)}"
        )
    return "label" if given is None else given


def _features(
    rows: Source, roles: RolesTable, ignore: Sequence[str], named: Sequence[str]
) -> list[str]:
    """The columns that have no other role. named: those that the caller says something of."""
    names = rows.columns()
    for given in [roles.label, roles.subject, roles.row_id, *ignore, *named]:
        if given is not None and given not in names:
            raise BadInput(f"{rows.name} has no column {given!r}; there are {_few(names)}")
    taken = {roles.label, roles.subject, roles.row_id, *ignore}
    features = [name for name in names if name not in taken]
    if len(features) > MAX_COLUMNS:
        raise BadInput(
            f"{rows.name} has {len(features):,} columns; unfit takes {MAX_COLUMNS:,}, and more as "
            "pairs of one sparse column"
        )
    return features


def _write(folder: Path, text: str) -> None:
    """Write unfit.toml, and the folder if it does not exist."""
    fresh = not folder.exists()
    disk.private_folder(folder)
    try:
        disk.write(Layout(folder).config, text.encode())
    except BaseException:
        if fresh:
            folder.rmdir()
        raise


def _with_dialect(asked: SourceTable, rows: Source) -> SourceTable:
    """What was detected in a CSV file is written down; other sources have no dialect."""
    if rows.dialect is not None:
        return replace(asked, delimiter=rows.dialect.delimiter, encoding=rows.dialect.encoding)
    for option, given in (("--delimiter", asked.delimiter), ("--encoding", asked.encoding)):
        if given is not None:
            raise BadInput(f"{option} applies to CSV files, and {rows.name} is not one")
    return asked


def _check_lacking(looked: Look, roles: RolesTable, where: str) -> None:
    if roles.drop_missing:
        return
    for name, (count, first) in looked.lacking.items():
        what = "label" if name == roles.label else "subject" if name == roles.subject else "row id"
        rows = f"row {first}" if count == 1 else f"{count:,} rows, the first of them {first},"
        raise BadInput(
            f"{where}: {what} {name!r} is missing in {rows}; --drop-missing leaves out rows "
            "without a label, subject or row id"
        )


def _make_numeric(
    found: dict[str, Profile], numeric: Sequence[str], features: set[str], where: str
) -> None:
    """Treat columns as numbers because the caller says so."""
    for name in numeric:
        if name not in features:
            raise BadInput(f"--numeric {name}: that column is the label, an id or left out")
        column = found[name]
        if column.seen == "numeric" and column.type != "string":
            continue
        if column.type != "string" or column.numbers == 0:
            raise BadInput(f"{where}: column {name!r} has no value that is a number (--numeric)")
        if column.unclear:
            text, row = column.strays[0]
            raise BadInput(
                f"{where}: column {name!r}: the comma of {text!r} in row {row} may separate "
                "decimals or thousands; say which with --decimal , or --decimal ."
            )
        found[name] = replace(column, seen="numeric", lenient=True)


def _source(source: str | Path, folder: Path, table: str | None, query: str | None) -> SourceTable:
    text = str(source)
    if text.startswith("sqlite:///") and not text.startswith("sqlite:////"):
        text = f"sqlite:///{Path(text[len('sqlite:///') :]).resolve()}"
    if "://" in text or text.startswith("$"):
        return SourceTable(url=text, table=table, query=query)
    if table or query:
        raise BadInput("--table and --query apply to a database URL")
    path = os.path.relpath(Path(text).expanduser().resolve(), folder.resolve())
    return SourceTable(path=path)


def _location(asked: SourceTable, source: str | Path) -> Location:
    return replace(asked.location(), path=None if asked.path is None else Path(source).expanduser())


def _check_roles(rows: Source, roles: RolesTable, ignore: Sequence[str]) -> None:
    if roles.label in (roles.subject, roles.row_id, *ignore):
        raise BadInput(f"column {roles.label!r} cannot be the label and something else")
    if not rows.ordered and not (roles.subject or roles.row_id):
        raise BadInput(
            f"the rows of {rows.name} have no order, so they cannot be numbered; name people or "
            "rows with --subject or --row-id"
        )


def _check_label(found: Profile, roles: RolesTable) -> None:
    unknown = [p for p in roles.positive if found.values is not None and p not in found.values]
    if unknown:
        raise BadInput(f"label {found.name!r} never has the positive value {unknown[0]!r}")
    if found.seen == "date":
        raise BadInput(f"label {found.name!r} holds dates; unfit predicts classes")
    if found.distinct is None or (found.distinct > 100 and not roles.positive):
        many = "over 1,000" if found.distinct is None else f"{found.distinct}"
        raise BadInput(
            f"label {found.name!r} has {many} different values; unfit predicts classes, so name a "
            "column with few of them, or those that count with --positive"
        )
    if found.distinct < 2:
        raise BadInput(f"label {found.name!r} has only one value; there is nothing to predict")


def _choose(found: Sequence[Profile], where: str) -> tuple[list[Profile], list[str]]:
    for p in found:
        if p.seen == "date":
            raise BadInput(f"{where}: column {p.name!r} holds dates; {DATE_ADVICE}")
        if p.seen == "unusable" and p.missing < p.rows:
            raise BadInput(
                f"{where}: column {p.name!r} holds {p.type}, which is not a number, a boolean or "
                "text; leave it out (--ignore)"
            )
        if looks_like_an_id(p):
            raise BadInput(
                f"{where}: column {p.name!r} looks like an id: it differs in nearly every row; "
                "name it with --subject or --row-id, or leave it out (--ignore)"
            )
    empty = [p.name for p in found if p.seen == "unusable"]
    chosen = [p for p in found if p.seen != "unusable"]
    if not chosen:
        raise BadInput(f"{where} has no column to learn from")
    return chosen, empty


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
