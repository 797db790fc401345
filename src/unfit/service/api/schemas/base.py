"""What all schemas share: ids, strict input, examples, and errors."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr


def _whole(value: object) -> object:
    """7.0 is 7, as in a column of numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Id = (
    Annotated[StrictStr, Field(min_length=1, max_length=512)]
    | Annotated[StrictInt, BeforeValidator(_whole), Field(ge=-(2**63), lt=2**63)]
)


def examples(*bodies: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(bodies)})


class StrictInput(BaseModel):
    """A request body: unknown fields and numbers that are not finite are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Problem(BaseModel):
    """An error, as RFC 9457 defines it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None
