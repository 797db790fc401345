"""The tables of unfit.toml, but for those that are made of what is registered.

A table of the file is a class here: its docstring explains the table, the description of each field
explains the key, and `examples` show a key that is left out. Imports nothing heavy.
"""

import os
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from unfit.data.dialect import Dialect
from unfit.data.sources import Location
from unfit.errors import BadInput
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
from unfit.workspace.layout import CONFIG_FILE

if TYPE_CHECKING:
    from unfit.certify import Promise
    from unfit.methods import Settings

FORBID = ConfigDict(extra="forbid", allow_inf_nan=False)
OF_A_METHOD = "see the method"  # its knob says more, which is what workspace.toml writes


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """Where the rows come from. `unfit train` reads them once."""

    __pydantic_config__ = FORBID
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

    __pydantic_config__ = FORBID
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

    __pydantic_config__ = FORBID
    test_share: Annotated[float, Field(gt=0, lt=1, description="share of subjects")] = 0.2
    seed: Annotated[Seed, Field(description="of the choice of subjects")] = 0


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """The model, and how it unlearns."""

    __pydantic_config__ = FORBID
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

    __pydantic_config__ = FORBID
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

    __pydantic_config__ = FORBID
    epsilon: Annotated[
        NotNegative | None,
        Field(
            description="a release cannot be told from a retraining's, up to this", examples=[1.0]
        ),
    ] = None
    delta: Annotated[float, Field(gt=0, lt=1, description="except with this probability")] = 1e-5
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

    __pydantic_config__ = FORBID
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

    __pydantic_config__ = FORBID
    url: Annotated[
        str,
        Field(description="sqlite (in the workspace), postgresql://..., or $NAME of a variable"),
    ] = "sqlite"


@dataclass(frozen=True, kw_only=True)
class ServiceTable:
    """What `unfit serve` listens on and allows."""

    __pydantic_config__ = FORBID
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


def expand(text: str, key: str) -> str:
    """Replace $NAME by the environment variable, so that no password needs to be written down."""
    found = re.fullmatch(r"\$\{?(\w+)\}?", text)
    if found is None:
        return text
    if found[1] not in os.environ:
        raise BadInput(f"{CONFIG_FILE}: {key} names the variable {found[1]}, which is not set")
    return os.environ[found[1]]
