"""unfit.toml: every choice of a workspace, checked, and what follows from several of them.

`read` checks the file and names the key that is wrong; workspace.toml writes it from the same
tables, which are in config_tables, policy_table and engine_table. Imports nothing heavy.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from unfit.data.columns import Column
from unfit.data.dialect import checked
from unfit.data.roles import Roles
from unfit.data.sources import Location
from unfit.errors import BadInput
from unfit.lifecycle.policies import POLICIES
from unfit.methods import METHODS
from unfit.workspace.config_tables import (
    FORBID,
    CertifyTable,
    ModelTable,
    PreprocessingTable,
    RetentionTable,
    RolesTable,
    ServiceTable,
    SourceTable,
    SplitTable,
    StoreTable,
    expand,
)
from unfit.workspace.engine_table import EngineTable
from unfit.workspace.layout import CONFIG_FILE, Layout, deletion_list_name
from unfit.workspace.policy_table import PolicyTable


@dataclass(frozen=True, kw_only=True)
class Config:
    """All of unfit.toml."""

    __pydantic_config__ = FORBID
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
