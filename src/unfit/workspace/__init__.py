"""A workspace: the whole pipeline in a folder. See `unfit.Workspace`."""

from unfit.workspace.creation import init
from unfit.workspace.workspace import Workspace

__all__ = ["Workspace", "init"]
