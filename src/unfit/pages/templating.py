"""The templates of all pages."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **content: Any) -> str:
    """One self-contained HTML page."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("unfit.pages"), autoescape=True, undefined=StrictUndefined
    )
