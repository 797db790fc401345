"""[engine] of unfit.toml: who holds the rows. Imports nothing heavy."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

from unfit.workspace.config_types import Positive, Whole


@dataclass(frozen=True, kw_only=True)
class EngineTable:
    """Who holds the rows and computes sums over them. A change counts from the next command on."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    name: Annotated[
        str,
        Field(description='cpu, dask or an installed one; "": what UNFIT_ENGINE says, else cpu'),
    ] = ""
    address: Annotated[
        str | None,
        Field(
            description="dask: the scheduler, whose workers see this folder under the same path",
            examples=["tls://scheduler:8786"],
        ),
    ] = None
    shards: Annotated[
        Whole | None,
        Field(description="dask: ranges of rows; default: three a thread", examples=[12]),
    ] = None
    allow_plaintext: Annotated[
        bool, Field(description="dask: take an address without TLS on another machine")
    ] = False
    no_workers_timeout: Annotated[
        Positive, Field(description="dask: seconds without any worker until work is given up")
    ] = 60.0
