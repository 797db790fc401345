"""A workspace: the whole pipeline in a folder. See `unfit.Workspace`.

The names are imported when they are first asked for, so that modules which need only a part of this
package do not wait for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unfit.workspace.creation import init
    from unfit.workspace.workspace import Workspace

__all__ = ["Workspace", "init"]

_HOMES = {"Workspace": "unfit.workspace.workspace", "init": "unfit.workspace.creation"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
