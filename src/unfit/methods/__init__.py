"""The methods by name: a built-in one is one file here and one line below.

A package adds one by an entry point of the group "unfit.methods". Names are known without importing
a method, and the names below are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unfit.registry import Registry

if TYPE_CHECKING:
    from unfit.methods.base import OFFERED, Method, Settings, State

METHODS: "Registry[type[Method]]" = Registry(
    "method",
    "unfit.methods",
    {
        "fisher": "unfit.methods.fisher:Fisher",
        "influence": "unfit.methods.influence:Influence",
        "deltagrad": "unfit.methods.deltagrad:DeltaGrad",
        "newton": "unfit.methods.newton:Newton",
        "retrain": "unfit.methods.retrain:Retrain",
    },
)

__all__ = ["METHODS", "OFFERED", "Method", "Settings", "State", "explain"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'unfit.methods' has no attribute {name!r}")
    return getattr(import_module("unfit.methods.base"), name)


def explain() -> dict[str, str]:
    """What methods say of settings that not all of them have: which do, and what it is for."""
    owners: dict[str, list[str]] = {}
    help: dict[str, str] = {}
    for name, method in METHODS.items():
        for knob in method.knobs():
            owners.setdefault(knob.name, []).append(name)
            help[knob.name] = knob.help
    return {knob: f"{', '.join(names)}: {help[knob]}" for knob, names in owners.items()}
