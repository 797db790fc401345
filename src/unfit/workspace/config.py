"""unfit.toml: every choice of a workspace, visible and commented.

`read` checks it and names the key that is wrong; workspace.toml writes it.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from unfit.data.columns import Column
from unfit.data.dialect import Dialect, checked
from unfit.data.ingest import Roles
from unfit.data.sources import Location
from unfit.errors import BadInput
from unfit.lifecycle import policy as policies
from unfit.methods import METHODS, OFFERED, Settings

FILE = "unfit.toml"
_FORBID = ConfigDict(extra="forbid", allow_inf_nan=False)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Positive = Annotated[float, Field(gt=0)]
Whole = Annotated[int, Field(ge=1)]


def _all_or_number(value: object) -> object:
    return None if value == "all" else value


def _duration(value: object) -> object:
    if isinstance(value, str):
        if value == "none":
            return timedelta(0)
        found = re.fullmatch(r"(\d+)\s*([smhdw])", value)
        if found:
            return timedelta(seconds=int(found[1]) * UNITS[found[2]])
    raise ValueError("must be 'none' or a time such as '30d', '12h' or '4w'")


@dataclass(frozen=True)
class SourceTable:
    __pydantic_config__ = _FORBID
    path: str | None = None
    format: Literal["csv", "parquet", "libsvm"] | None = None
    url: str | None = None
    table: str | None = None
    query: str | None = None
    missing: tuple[str, ...] = ("",)
    delimiter: str | None = None
    encoding: str | None = None

    @property
    def dialect(self) -> Dialect | None:
        """Of files of the same kind; None where the source is none, or nothing is known."""
        if self.path is None or (self.delimiter is None and self.encoding is None):
            return None
        return Dialect(self.delimiter or ",", self.encoding or "utf-8")

    def beside(self, path: Path, format: str | None = None) -> Location:
        """Another file that is to be read as the source is."""
        return Location(path, format, missing=self.missing, like=self.dialect)


@dataclass(frozen=True)
class RolesTable:
    __pydantic_config__ = _FORBID
    label: str
    subject: str | None = None
    row_id: str | None = None
    positive: tuple[str, ...] = ()
    drop_missing: bool = False


@dataclass(frozen=True)
class SplitTable:
    __pydantic_config__ = _FORBID
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class ModelTable:
    __pydantic_config__ = _FORBID
    method: Literal["fisher", "influence", "deltagrad", "retrain"] = "fisher"
    l2: Positive = 1e-4
    sigma: Annotated[float, Field(ge=0)] = 0.0
    deletion_batch_size: Annotated[Whole | None, BeforeValidator(_all_or_number)] = None
    period: Whole = 50
    burn_in: Annotated[int, Field(ge=0)] = 10
    solver: Literal["auto", "newton", "sgd"] = "auto"
    epochs: Whole = 200
    batch_size: Annotated[Whole | None, BeforeValidator(_all_or_number)] = 512
    learning_rate: Positive = 1.0
    tol: Positive = 1e-8
    fit_intercept: bool = True
    random_state: Annotated[int, Field(ge=0)] | None = None

    def settings(self) -> Settings:
        return Settings(**{name: getattr(self, name) for name in OFFERED})


@dataclass(frozen=True)
class PreprocessingTable:
    __pydantic_config__ = _FORBID
    norm: Literal["none", "fitted"] | Positive = "none"
    min_rows: Whole = 10

    @property
    def bound(self) -> float | None:
        """As `data.constants.fit` takes it: 0 for none, None for fitted."""
        if isinstance(self.norm, str):
            return None if self.norm == "fitted" else 0.0
        return float(self.norm)


@dataclass(frozen=True)
class PolicyTable:
    __pydantic_config__ = _FORBID
    retrain_when: Annotated[
        tuple[
            Literal[
                "distance", "log_loss", "disparity", "accuracy", "count", "share", "always", "never"
            ],
            ...,
        ],
        Field(min_length=1),
    ] = ("disparity",)
    distance: Annotated[float, Field(ge=0)] = 5.0
    log_loss: Annotated[float, Field(ge=0)] = 0.01
    disparity: Annotated[float, Field(ge=0)] = 1.0
    accuracy: Annotated[float, Field(ge=0, le=1)] = 0.5
    count: Whole = 1000
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    theta: Annotated[float, Field(gt=0, lt=1)] = 0.45

    def policy(self) -> policies.Policy:
        made: dict[str, policies.Policy] = {
            "distance": policies.Distance(self.distance),
            "log_loss": policies.LogLoss(self.log_loss),
            "disparity": policies.Disparity(self.disparity),
            "accuracy": policies.AccuracyFloor(self.accuracy),
            "count": policies.DeletedRows(self.count),
            "share": policies.DeletedShare(self.share),
            "always": policies.Always(),
            "never": policies.Never(),
        }
        chosen = [made[name] for name in self.retrain_when]
        return chosen[0] if len(chosen) == 1 else policies.AnyOf(chosen)


@dataclass(frozen=True)
class RetentionTable:
    __pydantic_config__ = _FORBID
    audit_window: Annotated[timedelta, BeforeValidator(_duration)] = timedelta(0)
    deletion_list: str = ""


@dataclass(frozen=True)
class StoreTable:
    __pydantic_config__ = _FORBID
    url: str = "sqlite"


@dataclass(frozen=True)
class ServiceTable:
    """What `unfit serve` allows."""

    __pydantic_config__ = _FORBID
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8321
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    queue: Whole = 1000
    max_body_mb: Positive = 8.0
    max_rows: Whole = 1000
    rate: Positive = 5000.0
    sign_in: Annotated[timedelta, BeforeValidator(_duration)] = timedelta(hours=8)


@dataclass(frozen=True)
class Config:
    """All of unfit.toml."""

    __pydantic_config__ = _FORBID
    id: str
    source: SourceTable
    roles: RolesTable
    columns: dict[str, Any]
    split: SplitTable = field(default_factory=SplitTable)
    model: ModelTable = field(default_factory=ModelTable)
    preprocessing: PreprocessingTable = field(default_factory=PreprocessingTable)
    policy: PolicyTable = field(default_factory=PolicyTable)
    retention: RetentionTable = field(default_factory=RetentionTable)
    store: StoreTable = field(default_factory=StoreTable)
    service: ServiceTable = field(default_factory=ServiceTable)

    def feature_columns(self) -> list[Column]:
        return [_column(name, table) for name, table in self.columns.items()]

    def the_roles(self) -> Roles:
        r = self.roles
        return Roles(r.label, r.subject or None, r.row_id or None, r.positive, r.drop_missing)

    def location(self, folder: Path) -> Location:
        s = self.source
        path = None if s.path is None else folder / Path(s.path).expanduser()
        url = None if s.url is None else expand(s.url, "source.url")
        return Location(path, s.format, url, s.table, s.query, s.missing, s.delimiter, s.encoding)

    def store_url(self, folder: Path) -> str:
        url = expand(self.store.url, "store.url")
        return f"sqlite:///{(folder / 'unfit.db').resolve()}" if url == "sqlite" else url

    def list_path(self, folder: Path) -> Path:
        """The deletion list, outside the workspace."""
        root = folder.resolve()
        named = self.retention.deletion_list or f"../{root.name}.forgotten"
        path = (root / Path(named).expanduser()).resolve()
        if path.is_relative_to(root):
            raise BadInput(
                f"{FILE}: retention.deletion_list must lie outside the workspace, so that a "
                "restored backup finds what was forgotten since"
            )
        return path


_ADAPTER = TypeAdapter(Config)
_COLUMN = TypeAdapter(Column)


def _column(name: str, table: object) -> Column:
    where = f"{FILE}: columns.{name}"
    if not isinstance(table, Mapping):
        raise BadInput(f"{where} must be a table")
    known = {f.name for f in fields(Column)} - {"name"}
    for key in table:
        if key not in known:
            raise BadInput(f"{where}.{key} is not known; there are {', '.join(sorted(known))}")
    try:
        return _COLUMN.validate_python({"name": name, **table})
    except ValidationError as error:
        raise _said(error, f"columns.{name}") from None


def expand(text: str, key: str) -> str:
    """$NAME stands for an environment variable, so that no password need be written down."""
    found = re.fullmatch(r"\$\{?(\w+)\}?", text)
    if found is None:
        return text
    if found[1] not in os.environ:
        raise BadInput(f"{FILE}: {key} names the variable {found[1]}, which is not set")
    return os.environ[found[1]]


def read(folder: Path) -> Config:
    """The checked configuration of a workspace."""
    path = folder / FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{folder} is not a workspace: it has no {FILE}; see `unfit init`") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{FILE} cannot be read: {error}") from None
    except OSError as error:
        raise BadInput(f"{FILE} cannot be read: {error.strerror}") from None
    return check(content)


def check(content: Mapping[str, Any]) -> Config:
    try:
        config = _ADAPTER.validate_python(dict(content))
    except ValidationError as error:
        raise _said(error) from None
    if (config.source.path is None) == (config.source.url is None):
        raise BadInput(f"{FILE}: source needs either path or url")
    checked(config.source.delimiter, config.source.encoding)
    columns = config.feature_columns()
    if not columns:
        raise BadInput(f"{FILE}: columns is empty; a model needs at least one")
    for name in config.the_roles().names():
        if name in config.columns:
            raise BadInput(f"{FILE}: columns.{name} is the label, subject or row id")
    when = config.policy.retrain_when
    if len(when) > 1 and {"always", "never"} & set(when):
        raise BadInput(f"{FILE}: policy.retrain_when names 'always' or 'never' beside others")
    if "__label__" in config.columns:
        raise BadInput(f"{FILE}: columns.__label__ is a name that unfit needs itself")
    METHODS[config.model.method](config.model.settings())  # says if the solver does not fit
    return config


def _said(error: ValidationError, prefix: str = "") -> BadInput:
    first = error.errors()[0]
    where = [
        str(part) for part in first["loc"] if not str(part).startswith(("function-", "constr"))
    ]
    kinds = {"literal", "float", "int", "str", "bool", "constrained", "nullable"}
    names = [part for part in where if not any(part.startswith(f"{kind}[") for kind in kinds)]
    while names and names[-1] in kinds:
        names.pop()
    key = ".".join([*([prefix] if prefix else []), *names]) or "the file"
    wrong = first["type"]
    if wrong == "value_error":
        inner = first["ctx"]["error"]
        if isinstance(inner, BadInput):
            return BadInput(f"{FILE}: {inner}")
        return BadInput(f"{FILE}: {key} {inner}")
    if wrong in ("unexpected_keyword_argument", "extra_forbidden"):
        return BadInput(f"{FILE}: {key} is not a known key")
    if wrong in ("missing", "missing_argument"):
        return BadInput(f"{FILE}: {key} is missing")
    message = (first["msg"][0].lower() + first["msg"][1:]).replace("tuple", "list")
    shown = repr(first["input"])[:60]
    return BadInput(f"{FILE}: {key}: {message}, got {shown}")


def retention(audit_window: str, deletion_list: str) -> RetentionTable:
    """From what a person types."""
    try:
        return TypeAdapter(RetentionTable).validate_python(
            {"audit_window": audit_window, "deletion_list": deletion_list}
        )
    except ValidationError as error:
        raise _said(error, "retention") from None
