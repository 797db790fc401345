"""Parameters of which the quick tier takes a few and `make test-all` takes all."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """All values; those that are not among the quick ones are marked slow."""
    values, kept = list(values), list(quick)
    unknown = [value for value in kept if value not in values]
    assert not unknown, f"not among the values: {unknown}"
    return [
        value if value in kept else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]
