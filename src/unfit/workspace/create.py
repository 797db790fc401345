"""`unfit init`: look at a source, propose every choice, write unfit.toml."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unfit import disk
from unfit.data.columns import DATE_ADVICE
from unfit.data.profile import Profile, looks_like_an_id, profile
from unfit.data.sources import Location, open_source
from unfit.errors import BadInput
from unfit.workspace import config as configuration
from unfit.workspace import toml
from unfit.workspace.config import (
    ModelTable,
    PolicyTable,
    RolesTable,
    SourceTable,
    StoreTable,
)

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
    missing: Sequence[str] = ("", "NA", "NaN", "null", "?"),
    method: str = "fisher",
    sigma: float = 0.0,
    threshold: float = 1.0,
    test_share: float = 0.2,
    max_categories: int = 50,
    norm: str | None = None,
    store: str = "sqlite",
    random_state: int | None = None,
    audit_window: str = "none",
    progress: Callable[[int], None] | None = None,
) -> Created:
    """Make a workspace: one pass over the source, then unfit.toml. Trains nothing."""
    folder = Path(folder)
    if (folder / configuration.FILE).exists():
        raise BadInput(f"{folder} is a workspace already; name another with --workspace")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; a workspace is a folder")
    asked = _source(source, folder, table, query, format, tuple(missing))
    location = _location(asked, source)
    rows = open_source(location)
    names = rows.columns()
    if label is None:
        if "label" not in names:
            raise BadInput(f"which column is to be predicted? --label; there are {_few(names)}")
        label = "label"
    roles = RolesTable(label, subject, row_id, tuple(positive))
    _check_roles(asked, roles, ignore)
    if not store.startswith(("sqlite", "postgres", "$")):
        raise BadInput(f"--store {store}: unfit keeps its records in sqlite or a postgresql:// URL")
    for given in [label, subject, row_id, *ignore]:
        if given is not None and given not in names:
            raise BadInput(f"{rows.name} has no column {given!r}; there are {_few(names)}")
    taken = {label, subject, row_id, *ignore}
    features = [name for name in names if name not in taken]
    if len(features) > MAX_COLUMNS:
        raise BadInput(f"{rows.name} has {len(features):,} columns; unfit takes {MAX_COLUMNS:,}")
    found = {p.name: p for p in profile(rows, [*features, label], progress)}
    _check_label(found[label], roles)
    chosen, ignored = _choose([found[name] for name in features], rows.name)
    model = ModelTable(method=method, sigma=sigma, random_state=random_state)  # type: ignore[arg-type]  # checked when the text is read back
    policy = PolicyTable(disparity=threshold)
    config = toml.new_config(
        asked, roles, chosen, model=model, policy=policy, store=StoreTable(store),
        test_share=test_share, max_categories=max_categories,
        norm=norm or ("fitted" if method == "deltagrad" else "none"),
        retention=configuration.retention(audit_window, f"../{folder.resolve().name}.forgotten"),
    )  # fmt: skip
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        disk.write(folder / configuration.FILE, toml.render(config, chosen).encode())
    except BaseException:
        if fresh:
            folder.rmdir()
        raise
    return Created(
        folder, found[label].rows, chosen, found[label], [*ignore, *ignored],
        config.list_path(folder).exists(),
    )  # fmt: skip


def _source(
    source: str | Path, folder: Path, table: str | None, query: str | None, format: str | None,
    missing: tuple[str, ...],
) -> SourceTable:  # fmt: skip
    text = str(source)
    if text.startswith("sqlite:///") and not text.startswith("sqlite:////"):
        text = f"sqlite:///{Path(text[len('sqlite:///') :]).resolve()}"
    if "://" in text or text.startswith("$"):
        return SourceTable(url=text, table=table, query=query, missing=missing)
    if table or query:
        raise BadInput("--table and --query go with a database URL")
    path = os.path.relpath(Path(text).expanduser().resolve(), folder.resolve())
    return SourceTable(path=path, format=format, missing=missing)  # type: ignore[arg-type]  # checked when the text is read back


def _location(asked: SourceTable, source: str | Path) -> Location:
    if asked.url is not None:
        url = configuration.expand(asked.url, "source.url")
        return Location(url=url, table=asked.table, query=asked.query)
    return Location(Path(source).expanduser(), asked.format, missing=asked.missing)


def _check_roles(asked: SourceTable, roles: RolesTable, ignore: Sequence[str]) -> None:
    if roles.label in (roles.subject, roles.row_id, *ignore):
        raise BadInput(f"column {roles.label!r} cannot be the label and something else")
    if asked.url is not None and not (roles.subject or roles.row_id):
        raise BadInput("rows of a database have no order: name people or rows with --subject or "
                       "--row-id")  # fmt: skip


def _check_label(found: Profile, roles: RolesTable) -> None:
    if found.missing:
        raise BadInput(f"label {found.name!r} is missing in {found.missing:,} rows")
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
        raise BadInput(f"label {found.name!r} has one value only; there is nothing to predict")


def _choose(found: Sequence[Profile], where: str) -> tuple[list[Profile], list[str]]:
    for p in found:
        if p.seen == "date":
            raise BadInput(f"{where}: column {p.name!r} holds dates; {DATE_ADVICE}")
        if p.seen == "unusable" and p.missing < p.rows:
            raise BadInput(
                f"{where}: column {p.name!r} holds {p.type}, which is no number, truth value or "
                "text; leave it out (--ignore)"
            )
        if looks_like_an_id(p):
            raise BadInput(
                f"{where}: column {p.name!r} looks like an id, different in nearly every row; name "
                "it with --subject or --row-id, or leave it out (--ignore)"
            )
    empty = [p.name for p in found if p.seen == "unusable"]
    chosen = [p for p in found if p.seen != "unusable"]
    if not chosen:
        raise BadInput(f"{where} has no column to learn from")
    return chosen, empty


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
