"""Registries: built-in things are imported late, packages add theirs, no name is taken twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from unfit.errors import BadInput, Unavailable
from unfit.registry import Registry

GROUP = "unfit.fruits"


def install(folder: Path, name: str, points: str, code: str = "") -> None:
    """A package with entry points, as pip would leave it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}\n")
    (folder / f"{name}.py").write_text(code)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def fruits() -> Registry[type]:
    return Registry("fruit", GROUP, {"apple": "decimal:Decimal", "pear": "fractions:Fraction"})


def test_names_are_known_without_importing_anything() -> None:
    code = (
        "import sys; from unfit.registry import Registry; "
        "r = Registry('fruit', 'unfit.fruits', {'apple': 'colorsys:rgb_to_hsv'}); "
        "assert list(r) == ['apple'] and 'apple' in r and 'colorsys' not in sys.modules; "
        "assert r['apple'] and 'colorsys' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_adds_a_thing_by_its_entry_point(folder: Path) -> None:
    install(folder, "orchard", "plum = orchard:Plum", "class Plum:\n    pass\n")
    found = fruits()
    assert list(found) == ["apple", "pear", "plum"]
    assert len(found) == 3
    assert found["plum"].__name__ == "Plum"
    assert found.find("plum") is found["plum"]


def test_a_script_registers_a_thing() -> None:
    found = fruits()
    assert found.register("plum", int) is int
    assert found["plum"] is int
    assert list(found) == ["apple", "pear", "plum"]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(BadInput, match="unknown fruit 'plum'; there are apple, pear"):
        fruits().find("plum")
    with pytest.raises(KeyError):
        fruits()["plum"]


def test_no_name_is_taken_twice(folder: Path) -> None:
    with pytest.raises(BadInput, match="already a fruit called 'apple'"):
        fruits().register("apple", int)
    install(folder, "orchard", "apple = orchard:Apple")
    with pytest.raises(Unavailable, match="the package orchard adds a fruit 'apple'"):
        list(fruits())


def test_a_package_that_cannot_be_imported_is_named(folder: Path) -> None:
    install(folder, "desert", "plum = desert:Plum", "raise RuntimeError('no rain')\n")
    found = fruits()
    assert "plum" in found
    with pytest.raises(Unavailable, match="'plum' of the package desert cannot .*: no rain"):
        found["plum"]
