"""unfit.toml: every choice of a workspace, with its type, its limits and its description.

`read` checks the file and names the key that is wrong; workspace.toml writes it from the same
fields. A table of the file is a class here: its docstring explains the table, the description of
each field explains the key, and `examples` show a key that is left out. Imports nothing heavy.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from unfit.data.columns import Column
from unfit.data.dialect import Dialect, checked
from unfit.data.roles import Roles
from unfit.data.sources import Location
from unfit.errors import BadInput
from unfit.lifecycle.policies import POLICIES
from unfit.methods import METHODS
from unfit.workspace.config_types import (
    Duration,
    FormatName,
    LossName,
    MethodName,
    NotNegative,
    Positive,
    Seed,
    Whole,
    WholeOrAll,
)
from unfit.workspace.engine_table import EngineTable
from unfit.workspace.layout import CONFIG_FILE, Layout, deletion_list_name
from unfit.workspace.policy_table import PolicyTable

if TYPE_CHECKING:
    from unfit.certify import Promise
    from unfit.methods import Settings

_FORBID = ConfigDict(extra="forbid", allow_inf_nan=False)
OF_A_METHOD = "see the method"  # its knob says more, which is what workspace.toml writes


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """Where the rows come from. `unfit train` reads them once."""

    __pydantic_config__ = _FORBID
    path: Annotated[str | None, Field(description="relative to this file")] = None
    url: Annotated[
        str | None,
        Field(description="sqlite:///..., postgresql://..., or $NAME of a variable that holds it"),
    ] = None
    format: Annotated[
        FormatName | None,
        Field(
            description="csv, parquet, libsvm or an installed format; default: by name",
            examples=["csv"],
        ),
    ] = None
    table: Annotated[str | None, Field(description="the table to read", examples=["customers"])] = (
        None
    )
    query: Annotated[
        str | None,
        Field(description="or a query, instead of a table", examples=["SELECT ..."]),
    ] = None
    missing: Annotated[tuple[str, ...], Field(description="in CSV, texts that mean: no value")] = (
        "",
    )
    delimiter: Annotated[
        str | None, Field(description="in CSV, what separates cells", examples=[","])
    ] = None
    encoding: Annotated[
        str | None,
        Field(description="of CSV, such as latin-1 or utf-16", examples=["utf-8"]),
    ] = None
    options: Annotated[
        dict[str, str | int | float | bool], Field(description="settings of an installed format")
    ] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect | None:
        """How files of the same kind are written; None if nothing is known."""
        if self.path is None or (self.delimiter is None and self.encoding is None):
            return None
        return Dialect(self.delimiter or ",", self.encoding or "utf-8")

    def keys(self) -> list[str]:
        """The keys that concern a source of this kind."""
        keys = ["path", "format", "missing", "delimiter", "encoding"]
        if self.url is not None:
            keys = ["url", "table", "query", *(["format"] if self.format else [])]
        return [*keys, *(["options"] if self.options else [])]

    def location(self) -> Location:
        """Where the rows are; the path as it is written, the URL with its variable expanded."""
        return Location(
            None if self.path is None else Path(self.path).expanduser(),
            url=None if self.url is None else expand(self.url, "source.url"),
            format=self.format,
            table=self.table,
            query=self.query,
            missing=self.missing,
            delimiter=self.delimiter,
            encoding=self.encoding,
            options=self.options,
        )

    def beside(self, path: Path, format: str | None = None) -> Location:
        """Another file, to be read as the source is."""
        return Location(
            path, format=format, missing=self.missing, like=self.dialect, options=self.options
        )


@dataclass(frozen=True)
class RolesTable:
    """Columns that are not features."""

    __pydantic_config__ = _FORBID
    label: Annotated[str, Field(description="what to predict")]
    subject: Annotated[
        str | None,
        Field(
            description="whose row it is; without it every row is its own subject",
            examples=["customer_id"],
        ),
    ] = None
    row_id: Annotated[
        str | None,
        Field(
            description="names a row for good; without it, its number in the source, from 0",
            examples=["record"],
        ),
    ] = None
    positive: Annotated[
        tuple[str, ...],
        Field(description="labels of one class against the rest; []: each label is a class"),
    ] = ()
    drop_missing: Annotated[
        bool, Field(description="leave out rows that lack one of these, instead of refusing them")
    ] = False


@dataclass(frozen=True)
class SplitTable:
    """Held-out subjects, with all their rows: accuracy is measured on them."""

    __pydantic_config__ = _FORBID
    test_share: Annotated[float, Field(gt=0, lt=1, description="share of subjects")] = 0.2
    seed: Annotated[Seed, Field(description="of the choice of subjects")] = 0


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """The model, and how it unlearns."""

    __pydantic_config__ = _FORBID
    method: Annotated[MethodName, Field(description="how it unlearns")] = "fisher"
    loss: Annotated[LossName, Field(description="what training minimises")] = "logistic"
    l2: Annotated[Positive, Field(description="ridge penalty per row")] = 1e-4
    C: Annotated[
        Positive | None,
        Field(description="instead of l2: a penalty of 1 / C, whatever the rows", examples=[1.0]),
    ] = None
    penalize_intercept: Annotated[
        bool, Field(description="false: the penalty leaves the constant column out")
    ] = True
    class_weight: Annotated[
        Literal["none", "balanced"] | dict[str, Positive],
        Field(
            description="of the rows of each class: none, balanced (fitted at every training, and "
            "rounded), or a number for each"
        ),
    ] = "none"
    sigma: Annotated[
        NotNegative, Field(description="noise; more hides more and costs accuracy")
    ] = 0.0
    deletion_batch_size: Annotated[WholeOrAll, Field(description=OF_A_METHOD)] = None
    period: Annotated[Whole, Field(description=OF_A_METHOD)] = 50
    burn_in: Annotated[int, Field(ge=0, description=OF_A_METHOD)] = 10
    solver: Annotated[
        Literal["auto", "newton", "sgd"], Field(description="newton, sgd or auto")
    ] = "auto"
    epochs: Annotated[Whole, Field(description="of sgd")] = 200
    batch_size: Annotated[WholeOrAll, Field(description="of sgd")] = 512
    learning_rate: Annotated[Positive, Field(description="of sgd")] = 1.0
    tol: Annotated[Positive, Field(description="newton: stop at |gradient sum| <= tol x rows")] = (
        1e-8
    )
    fit_intercept: Annotated[bool, Field(description="add a constant column")] = True
    random_state: Annotated[
        Seed | None,
        Field(
            description="fixes all randomness; leave out for fresh noise each time", examples=[0]
        ),
    ] = None
    options: Annotated[
        dict[str, int | float | bool | str],
        Field(description="settings that only a method from a package has", examples=[{"name": 1}]),
    ] = field(default_factory=dict)

    def settings(self) -> "Settings":
        from unfit.methods import OFFERED, Settings

        given = {name: getattr(self, name) for name in OFFERED}
        return Settings(**given, options=tuple(sorted(self.options.items())))


@dataclass(frozen=True)
class PreprocessingTable:
    """How rows become numbers."""

    __pydantic_config__ = _FORBID
    norm: Annotated[
        Literal["none", "fitted"] | Positive,
        Field(
            description="rows are divided by it, and longer rows are cut to it: none, fitted (the "
            "median length of a row), or a number"
        ),
    ] = "none"
    min_rows: Annotated[
        Whole,
        Field(
            description="fewer rows make no category and no mean: they would be about single people"
        ),
    ] = 10
    rows: Annotated[
        Literal["auto", "dense", "sparse"],
        Field(
            description="how encoded rows are kept: dense, sparse (only what is not zero), or auto "
            "(sparse from 1,024 columns on, if rows have values in a sixteenth of them at most)"
        ),
    ] = "auto"

    @property
    def bound(self) -> float | None:
        """As `data.constants.fit` takes it: 0 for none, None for fitted."""
        if isinstance(self.norm, str):
            return None if self.norm == "fitted" else 0.0
        return float(self.norm)


@dataclass(frozen=True, kw_only=True)
class CertifyTable:
    """With epsilon, every version is released with fresh noise and a signed certificate.
    A change counts from the next training on."""

    __pydantic_config__ = _FORBID
    epsilon: Annotated[
        NotNegative | None,
        Field(
            description="a release cannot be told from a retraining's, up to this", examples=[1.0]
        ),
    ] = None
    delta: Annotated[float, Field(gt=0, lt=1, description="and but for this probability")] = 1e-5
    noise: Annotated[
        Positive, Field(description="standard deviation of the noise on each weight")
    ] = 1e-3
    key: Annotated[
        str,
        Field(description='file with the signing key, relative to this one; "": signing.key'),
    ] = ""
    keep_salts: Annotated[
        Duration,
        Field(description="how long a person's proof can be fetched, once: 30d, 12h, 4w"),
    ] = timedelta(days=30)

    def promise(self) -> "Promise | None":
        """What every release is to keep; None without certificates."""
        from unfit.certify import Promise

        return None if self.epsilon is None else Promise(self.epsilon, self.delta, self.noise)


@dataclass(frozen=True)
class RetentionTable:
    """What is kept of people who were forgotten."""

    __pydantic_config__ = _FORBID
    audit_window: Annotated[
        Duration, Field(description="how long to keep deleted rows for audits: none, 30d, 12h, 4w")
    ] = timedelta(0)
    deletion_list: Annotated[
        str,
        Field(description='ids of the forgotten, outside the workspace; "": beside it'),
    ] = ""


@dataclass(frozen=True)
class StoreTable:
    """Where the records are kept."""

    __pydantic_config__ = _FORBID
    url: Annotated[
        str,
        Field(description="sqlite (in the workspace), postgresql://..., or $NAME of a variable"),
    ] = "sqlite"


@dataclass(frozen=True, kw_only=True)
class ServiceTable:
    """What `unfit serve` listens on and allows."""

    __pydantic_config__ = _FORBID
    host: Annotated[str, Field(description="0.0.0.0 behind a proxy that speaks TLS")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="0: any free port")] = 8321
    processes: Annotated[
        int,
        Field(
            ge=1, le=64, description="that answer requests; more than one works best on PostgreSQL"
        ),
    ] = 1
    queue: Annotated[
        Whole, Field(description="erasures that may wait; further ones are answered with 429")
    ] = 1000
    max_body_mb: Annotated[Positive, Field(description="of one request")] = 8.0
    max_rows: Annotated[Whole, Field(description="of one prediction, in JSON or Arrow")] = 1000
    rate: Annotated[
        Positive, Field(description="requests per second, for each token and process")
    ] = 5000.0
    sign_in: Annotated[Duration, Field(description="how long the dashboard remembers a token")] = (
        timedelta(hours=8)
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """All of unfit.toml."""

    __pydantic_config__ = _FORBID
    id: Annotated[str, Field(description="names this workspace in its store; leave it")]
    source: SourceTable
    roles: RolesTable
    columns: dict[str, Any]
    split: SplitTable = field(default_factory=SplitTable)
    model: ModelTable = field(default_factory=ModelTable)
    preprocessing: PreprocessingTable = field(default_factory=PreprocessingTable)
    policy: PolicyTable = field(default_factory=PolicyTable)
    certify: CertifyTable = field(default_factory=CertifyTable)
    retention: RetentionTable = field(default_factory=RetentionTable)
    store: StoreTable = field(default_factory=StoreTable)
    engine: EngineTable = field(default_factory=EngineTable)
    service: ServiceTable = field(default_factory=ServiceTable)

    def check_method(self) -> None:
        """Refuse settings that the method cannot work with. Imports what computes."""
        settings = self.model.settings()
        method = METHODS[self.model.method](settings)
        self._check_objective(method.solver == "sgd", method.replays)
        if self.certify.epsilon is None:
            return
        from unfit.certify import certified_settings

        try:
            self.certify.promise()
            certified_settings(settings)
        except ValueError as error:
            raise BadInput(f"{CONFIG_FILE}: certify: {error}") from None

    def _check_objective(self, sgd: bool, replays: bool) -> None:
        """Refuse weights and penalties that the solver or a certificate does not allow."""
        model, certified = self.model, self.certify.epsilon is not None
        weighted, free = model.class_weight != "none", not model.penalize_intercept
        wrong = [
            (model.C is not None and model.l2 != ModelTable.l2, "C", "l2 is given, too; keep one"),
            (weighted and sgd, "class_weight", "SGD counts rows, not weights; use solver newton"),
            (free and sgd, "penalize_intercept", "SGD penalises all weights; use solver newton"),
            (model.C is not None and replays, "C", f"{model.method} needs a penalty per row: l2"),
            (weighted and certified, "class_weight", "certificates state no weights of classes"),
            (model.C is not None and certified, "C", "certificates state l2, the penalty per row"),
        ]
        for found, key, reason in wrong:
            if found:
                raise BadInput(f"{CONFIG_FILE}: model.{key} cannot be used: {reason}")

    def kept_as(self) -> Literal["auto", "dense", "sparse"]:
        """How encoded rows are kept: "auto" is dense for training that walks through rows."""
        wanted = self.preprocessing.rows
        walks = METHODS[self.model.method](self.model.settings()).solver == "sgd"
        return "dense" if wanted == "auto" and walks else wanted

    def feature_columns(self) -> list[Column]:
        return [_column(name, table) for name, table in self.columns.items()]

    def the_roles(self) -> Roles:
        r = self.roles
        return Roles(
            label=r.label,
            subject=r.subject or None,
            row_id=r.row_id or None,
            positive=r.positive,
            drop_missing=r.drop_missing,
        )

    def location(self, folder: Path) -> Location:
        found = self.source.location()
        return found if found.path is None else replace(found, path=folder / found.path)

    def store_url(self, folder: Path) -> str:
        url = expand(self.store.url, "store.url")
        return f"sqlite:///{Layout(folder).database.resolve()}" if url == "sqlite" else url

    def key_path(self, folder: Path) -> Path:
        """The signing key of certificates."""
        if not self.certify.key:
            return Layout(folder).signing_key
        return folder / Path(self.certify.key).expanduser()

    def list_path(self, folder: Path) -> Path:
        """The deletion list, outside the workspace."""
        root = folder.resolve()
        named = self.retention.deletion_list or f"../{deletion_list_name(root)}"
        path = (root / Path(named).expanduser()).resolve()
        if path.is_relative_to(root):
            raise BadInput(
                f"{CONFIG_FILE}: retention.deletion_list must lie outside the workspace, so that a "
                "restored backup finds what was forgotten since"
            )
        return path


_ADAPTER = TypeAdapter(Config)
_COLUMN = TypeAdapter(Column)


def _column(name: str, table: object) -> Column:
    where = f"{CONFIG_FILE}: columns.{name}"
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
    """Replace $NAME by the environment variable, so that no password needs to be written down."""
    found = re.fullmatch(r"\$\{?(\w+)\}?", text)
    if found is None:
        return text
    if found[1] not in os.environ:
        raise BadInput(f"{CONFIG_FILE}: {key} names the variable {found[1]}, which is not set")
    return os.environ[found[1]]


def read(folder: Path) -> Config:
    """The checked configuration of a workspace."""
    path = Layout(folder).config
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(
            f"{folder} is not a workspace: it has no {CONFIG_FILE}; see `unfit init`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{CONFIG_FILE} cannot be read: {error}") from None
    except OSError as error:
        raise BadInput(f"{CONFIG_FILE} cannot be read: {error.strerror}") from None
    return check(content)


def check(content: Mapping[str, Any]) -> Config:
    try:
        config = _ADAPTER.validate_python(dict(content))
    except ValidationError as error:
        raise _said(error) from None
    if (config.source.path is None) == (config.source.url is None):
        raise BadInput(f"{CONFIG_FILE}: source needs either path or url")
    checked(config.source.delimiter, config.source.encoding)
    columns = config.feature_columns()
    if not columns:
        raise BadInput(f"{CONFIG_FILE}: columns is empty; a model needs at least one")
    for name in config.the_roles().names():
        if name in config.columns:
            raise BadInput(f"{CONFIG_FILE}: columns.{name} is the label, subject or row id")
    when = config.policy.retrain_when
    alone = [name for name in when if POLICIES[name].alone]
    if len(when) > 1 and alone:
        raise BadInput(f"{CONFIG_FILE}: policy.retrain_when names {alone[0]!r} beside others")
    if config.certify.epsilon is not None and config.model.random_state is not None:
        raise BadInput(
            f"{CONFIG_FILE}: model.random_state makes noise known, and a certificate is worth "
            "nothing then: leave it out where certify.epsilon is given"
        )
    if "__label__" in config.columns:
        raise BadInput(f"{CONFIG_FILE}: columns.__label__ is a name that unfit needs itself")
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
            return BadInput(f"{CONFIG_FILE}: {inner}")
        return BadInput(f"{CONFIG_FILE}: {key} {inner}")
    if wrong in ("unexpected_keyword_argument", "extra_forbidden"):
        return BadInput(f"{CONFIG_FILE}: {key} is not a known key")
    if wrong in ("missing", "missing_argument"):
        return BadInput(f"{CONFIG_FILE}: {key} is missing")
    message = (first["msg"][0].lower() + first["msg"][1:]).replace("tuple", "list")
    shown = repr(first["input"])[:60]
    return BadInput(f"{CONFIG_FILE}: {key}: {message}, got {shown}")


def retention(audit_window: str, deletion_list: str) -> RetentionTable:
    """From what a person types."""
    try:
        return TypeAdapter(RetentionTable).validate_python(
            {"audit_window": audit_window, "deletion_list": deletion_list}
        )
    except ValidationError as error:
        raise _said(error, "retention") from None
