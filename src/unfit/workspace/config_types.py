"""The types of the values of unfit.toml: ranges, durations, names of what is registered."""

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from unfit.data.sources import SOURCES
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _number_or_all(value: object) -> object:
    return None if value == "all" else value


def _all_if_none(value: int | None) -> int | str:
    return "all" if value is None else value


def _parse_duration(value: object) -> object:
    if isinstance(value, str):
        if value == "none":
            return timedelta(0)
        found = re.fullmatch(r"(\d+)\s*([smhdw])", value)
        if found:
            return timedelta(seconds=int(found[1]) * UNITS[found[2]])
    raise ValueError("must be 'none' or a time such as '30d', '12h' or '4w'")


def _format_duration(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    unit = next((u for u in "wdhms" if seconds and seconds % UNITS[u] == 0), "s")
    return f"{seconds // UNITS[unit]}{unit}" if seconds else "none"


def _known(names: Collection[str]) -> AfterValidator:
    """A name of a registry; the names are listed where it is not one."""

    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"is {value!r}, which is unknown; there are {', '.join(names)}")
        return value

    return AfterValidator(check)


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Whole = Annotated[int, Field(ge=1)]
WholeOrAll = Annotated[Whole | None, BeforeValidator(_number_or_all), PlainSerializer(_all_if_none)]
Seed = Annotated[int, Field(ge=0)]
Duration = Annotated[timedelta, BeforeValidator(_parse_duration), PlainSerializer(_format_duration)]
MethodName = Annotated[str, _known(METHODS)]
LossName = Annotated[str, _known(LOSSES)]
FormatName = Annotated[str, _known(SOURCES)]
