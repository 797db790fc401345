"""What can be added to unfit, by name: the built-in things and those of installed packages.

A registry maps names to classes. Its own are given as "module:attribute" and imported when they are
asked for, so that naming a thing costs nothing. A package adds one by an entry point of the
registry's group, a script by `register`:

    [project.entry-points."unfit.sources"]
    excel = "my_package.excel:ExcelSource"

Knows errors alone.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from unfit.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Things of one kind by name.

    kind: what one of them is called in messages. group: the group of entry points that adds more.
    built_in: "module:attribute" by name.
    """

    def __init__(self, kind: str, group: str, built_in: Mapping[str, str]) -> None:
        self.kind, self.group = kind, group
        self._built_in = dict(built_in)
        self._loaded: dict[str, T] = {}

    def register(self, name: str, thing: T) -> T:
        """Add a thing in this process."""
        if name in self:
            raise BadInput(f"there is already a {self.kind} called {name!r}")
        self._loaded[name] = thing
        return thing

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            if name in self._built_in:
                module, _, attribute = self._built_in[name].partition(":")
                self._loaded[name] = getattr(import_module(module), attribute)
            elif name in self._entry_points:
                self._loaded[name] = self._load(self._entry_points[name])
            else:
                raise KeyError(name)
        return self._loaded[name]

    def find(self, name: str) -> T:
        """As `[name]`; an unknown name is an error that lists the known ones."""
        if name not in self:
            raise BadInput(f"unknown {self.kind} {name!r}; there are {', '.join(self)}")
        return self[name]

    def built_in(self) -> list[str]:
        """The names that unfit itself brings."""
        return list(self._built_in)

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._loaded or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._built_in, *self._entry_points, *self._loaded]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _entry_points(self) -> "dict[str, EntryPoint]":
        from importlib.metadata import entry_points  # not needed for what is built in

        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self._built_in or point.name in found:
                raise Unavailable(
                    f"{_package(point)} adds a {self.kind} {point.name!r}, but there is already "
                    "one of that name; uninstall the package or rename its entry point"
                )
            found[point.name] = point
        return found

    def _load(self, point: "EntryPoint") -> T:
        try:
            thing: T = point.load()
        except Exception as error:
            raise Unavailable(
                f"the {self.kind} {point.name!r} of {_package(point)} cannot be imported: {error}"
            ) from error
        return thing


def _package(point: "EntryPoint") -> str:
    return "a package" if point.dist is None else f"the package {point.dist.name}"
