"""The method with this workspace's numbers, and the settings of unfit.toml."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from unfit.core.losses import LOSSES, Loss
from unfit.engines.base import engine_name
from unfit.errors import Damaged
from unfit.methods import METHODS, Method
from unfit.methods.onestep import OneStep
from unfit.service.auth import PageRoute, allow
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard import charts
from unfit.service.dashboard.costs import Costs, costs
from unfit.service.dashboard.rendering import VIEWERS, page
from unfit.store.records import Decision, Version
from unfit.workspace.model import Card, load_card

TABLES = ("model", "policy", "preprocessing", "certify", "split", "retention", "service")
Lines = list[tuple[str, str]]  # name, value

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@routes.get("/method")
@allow(*VIEWERS)
def method(request: Request) -> HTMLResponse:
    context = context_of(request)
    return page(
        request, "method.html", shown=describe_method(context), policy=context.config.policy
    )


@routes.get("/settings")
@allow("operate", "audit")
def settings(request: Request) -> HTMLResponse:
    context = context_of(request)
    folder = context.workspace.folder.name
    return page(request, "settings.html", tables=list_settings(context), folder=folder)


@dataclass(frozen=True, kw_only=True)
class MethodView:
    """The method of the active version, with this workspace's numbers."""

    kind: type[Method]
    loss: Loss
    settings: dict[str, Any]
    version: Version | None
    decision: Decision | None
    costs: Costs

    @property
    def description(self) -> str:
        """What the method does, with the values of its settings."""
        return self.kind.description.format(**self._values)

    @property
    def refines(self) -> bool:
        """Whether its step is refined to nine digits by passes over the remaining rows."""
        return issubclass(self.kind, OneStep) and self.settings["sigma"] == 0

    @property
    def tau(self) -> tuple[str, str, str] | None:
        """The setting that trades closeness for speed: its value, a line and a paragraph."""
        knobs, values = self.kind.knobs(), self._values
        if not knobs:
            return None
        return str(values[knobs[0].name]), knobs[0].help, self.kind.tau.format(**values)

    @property
    def _values(self) -> dict[str, Any]:
        own = {knob.name: knob.default for knob in self.kind.knobs()}
        values = own | self.settings | self.settings["options"]
        return {name: "all" if value is None else value for name, value in values.items()}

    @property
    def slope(self) -> float | None:
        return None if self.version is None else self.version.baseline.get("slope")


def describe_method(context: ServiceContext) -> MethodView:
    store, model = context.store, context.config.model
    version = store.versions.active()
    card = _card(context, version)
    settings = {name: getattr(model, name) for name in type(model).__dataclass_fields__}
    if card is not None:
        settings |= {"options": {}} | card.settings.to_json()
    return MethodView(
        kind=METHODS.find(version.method if version else model.method),
        loss=LOSSES.find(model.loss)() if card is None else card.loss,
        settings=settings,
        version=version,
        decision=next(iter(store.decisions.find(last=1)), None),
        costs=costs(store.versions.find(last=charts.SHOWN)),
    )


def _card(context: ServiceContext, version: Version | None) -> Card | None:
    """That of the active model: unfit.toml may have been changed since it was trained."""
    if version is not None and version.card_sha is not None:
        with suppress(Damaged):  # it was superseded, and purged, since we asked
            return load_card(version, context.workspace.artifacts)
    return None


def list_settings(context: ServiceContext) -> list[tuple[str, Lines]]:
    """unfit.toml, table by table; the address of a database, with its password, is left out.
    Beside it, what the machine decides."""
    config = context.config
    found = [(table, _lines(getattr(config, table))) for table in TABLES]
    roles = [
        ("label", config.roles.label),
        ("subject", config.roles.subject or "every row"),
        ("row_id", config.roles.row_id or "its number in the source"),
    ]
    kind = "SQLite, in the workspace" if context.store.database.sqlite else "PostgreSQL"
    source = [
        ("path", config.source.path or "a database"),
        ("format", config.source.format or "by its name"),
    ]
    return [
        *found,
        ("roles", roles),
        ("source", source),
        ("store", [("kind", kind)]),
        ("machine", [("engine", engine_name())]),
    ]


def _lines(table: Any) -> Lines:
    return [(name, _shown(getattr(table, name))) for name in type(table).__dataclass_fields__]


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)
