"""Writing unfit.toml: every choice that `unfit init` proposes, explained by the config's fields."""

import inspect
import json
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from unfit.data.profile import Profile
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS, explain
from unfit.workspace.config import Config, check
from unfit.workspace.config_tables import (
    CertifyTable,
    ModelTable,
    PreprocessingTable,
    RetentionTable,
    RolesTable,
    SourceTable,
    SplitTable,
    StoreTable,
)
from unfit.workspace.policy_table import PolicyTable

HEADER = """\
# A workspace of unfit. `unfit init` made these choices; change them before `unfit train`.
# Keys that are commented out show their default or an example.
"""
FEATURES = """\
# Features. Constants that are not declared are fitted to the training rows: they are
# derived from the data, rounded, explained on the model's card, and follow erasures.
# numeric:  scale = "standard" (mean, sd), "range" (declared min, max) or "none";
#           missing = "mean", "error" or a number; decimal = "," for 1,5;
#           unreadable = "missing" (what is not a number counts as missing) or "error"
# boolean:  true/false, yes/no, t/f, 1/0
# category: one column for each of the most frequent (max_categories, min_rows above);
#           a missing value is a category;
#           unseen = "ignore" (none of the known categories) or "error"
# sparse:   stands for `width` columns: pairs such as 17:1.5 40:2, as text or as an Arrow map;
#           scale = "none" or "standard" (one scale for all of them, or a declared sd; never a
#           shift: what is zero stays zero); unseen: numbers that are not below width, in
#           rows to predict
# hash:     a text, or each text of a list, counts 1 in one of `width` columns, which a hash
#           without a key gives it (BLAKE2b); no text is kept, and two may share a column
"""


def new_config(
    source: SourceTable,
    roles: RolesTable,
    found: Sequence[Profile],
    *,
    model: ModelTable,
    policy: PolicyTable,
    store: StoreTable,
    test_share: float,
    max_categories: int,
    norm: str,
    retention: RetentionTable,
    certify: CertifyTable,
) -> Config:
    """What `unfit init` proposes for the columns it found."""
    config = Config(
        id=uuid.uuid4().hex,
        source=source,
        roles=roles,
        columns={p.name: _proposed(p, max_categories) for p in found},
        split=SplitTable(test_share=test_share),
        model=model,
        preprocessing=PreprocessingTable(norm=norm),  # type: ignore[arg-type]  # checked just below
        policy=policy,
        retention=retention,
        certify=certify,
        store=store,
    )
    made = check(tomllib.loads(render(config, found)))
    made.check_method()
    return made


def _proposed(column: Profile, max_categories: int) -> dict[str, object]:
    if column.kind == "boolean":
        return {"kind": "boolean", "missing": "mean"}
    if column.kind == "category":
        return {"kind": "category", "max_categories": max_categories, "unseen": "ignore"}
    if column.kind == "sparse":
        return {"kind": "sparse", "width": column.width, "scale": "none", "unseen": "ignore"}
    if column.kind == "hash":
        return {"kind": "hash", "width": column.width}
    made: dict[str, object] = {"kind": column.kind, "scale": "standard", "missing": "mean"}
    if column.decimal == ",":
        made["decimal"] = ","
    if column.lenient:
        made["unreadable"] = "missing"
    return made


def render(config: Config, found: Sequence[Profile] = ()) -> str:
    """The text of unfit.toml; found: what `unfit init` has seen of the columns."""
    values: dict[str, Any] = TypeAdapter(Config).dump_python(config, warnings=False)
    lines = [HEADER, *_keys(Config, values, ["id"])]
    for name in (f.name for f in fields(Config)):
        table = getattr(config, name)
        if is_dataclass(table):
            keys = table.keys() if isinstance(table, SourceTable | PolicyTable) else None
            comment = inspect.cleandoc(type(table).__doc__ or "")
            lines += ["", *(f"# {line}" for line in comment.splitlines()), f"[{name}]"]
            lines += _keys(type(table), values[name], keys)
    profiles = {p.name: p for p in found}
    lines += ["", FEATURES.rstrip()]
    for name, column in config.columns.items():
        lines += ["", f"[columns.{_toml(name)}]", *_column(column, profiles.get(name))]
    return "\n".join(lines) + "\n"


def _keys(table: type, values: Mapping[str, Any], keys: Sequence[str] | None) -> Iterator[str]:
    """A line for each key, or the named ones: its value, or an example of it that is commented out,
    and what its description says."""
    hints = get_type_hints(table, include_extras=True)
    of_methods = {}
    if table is ModelTable:
        of_methods = explain() | {
            "method": f"one of {', '.join(METHODS)}",
            "loss": f"what training minimises: {', '.join(LOSSES)}",
        }
    for name in keys or [f.name for f in fields(table)]:
        about = [m for m in hints[name].__metadata__ if isinstance(m, FieldInfo)][-1]
        value, off = values[name], ""
        if value is None or value == {}:
            value, off = (about.examples or [""])[0], "# "
        yield f"{f'{off}{name} = {_toml(value)}':<36}  # {of_methods.get(name, about.description)}"


def _column(column: Mapping[str, object], seen: Profile | None) -> Iterator[str]:
    if seen is not None and not seen.width:
        distinct = "over 1,000" if seen.distinct is None else _rounded(seen.distinct)
        yield f"# {distinct} different values, {_rounded(seen.missing)} missing"
        if seen.lenient and seen.unreadable:
            yield f"# {_rounded(seen.unreadable)} more are not numbers and count as missing"
    for key, value in column.items():
        yield f"{key} = {_toml(value)}"
    if column["kind"] == "numeric":
        yield from ("# mean = 0.0", "# sd = 1.0")
    elif column["kind"] == "category":
        yield '# categories = ["a", "b"]'


def _rounded(count: int) -> str:
    """A count to one figure. The exact count of all rows, less that of the rows that are left some
    day, would tell what single people had; these comments are not rewritten when somebody is
    forgotten."""
    if count == 0:
        return "none"
    if count < 10:
        return "fewer than 10"
    unit = 10 ** (len(str(count)) - 1)
    return f"about {(count + unit // 2) // unit * unit:,}"


def _toml(value: object) -> str:
    """A TOML value; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
