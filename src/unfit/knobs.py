"""Knobs: the settings of an extension, declared on its class.

An extension is a frozen dataclass. Each of its fields is a knob with a default and a line of help;
the annotation may hold bounds, as `Annotated[float, Ge(0)]` of annotated_types does. From these
unfit.toml is written and checked, and the pages and documents explain them.

    threshold: Annotated[float, Ge(0)] = knob(5.0, "percent")
"""

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

_T = TypeVar("_T")


@dataclass(frozen=True)
class Knob:
    """One setting. type: its annotation, bounds included."""

    name: str
    type: Any
    default: Any
    help: str


def knob(default: _T, help: str) -> _T:
    """Declare a field of a dataclass as a knob."""
    made: _T = field(default=default, metadata={"help": help})
    return made


@cache
def knobs(extension: type[Any]) -> tuple[Knob, ...]:
    """The knobs of an extension, in the order of its fields."""
    types = get_type_hints(extension, include_extras=True)
    return tuple(
        Knob(f.name, types[f.name], f.default, f.metadata.get("help", ""))
        for f in fields(extension)
    )
