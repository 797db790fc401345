"""The templates of all pages."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def templates() -> Environment:
    return Environment(
        loader=PackageLoader("unfit.pages"), autoescape=True, undefined=StrictUndefined
    )
