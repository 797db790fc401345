"""The process that makes the load: a plan comes on its standard input, what came of it to a folder.

Ends when the plan's time is over, or when its standard input is closed.
"""

import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .erasures import ErasureLoad
from .http_client import Address, Client
from .predictions import PredictionLoad


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do for how long. rate 0: as fast as it goes; erasures 0: none."""

    address: Address
    seconds: float
    connections: int
    rate: float
    erasures: float
    bodies: str  # a file with one body per line
    subjects: list[str]
    folder: str  # for the ledger and the figures
    watch: bool = True  # sample /v1/status

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "Plan":
        content = json.loads(text)
        return cls(**content | {"address": Address(**content["address"])})


async def generate(plan: Plan) -> None:
    folder, stop = Path(plan.folder), asyncio.Event()
    bodies = Path(plan.bodies).read_bytes().splitlines()
    predictions = PredictionLoad(plan.address, bodies, plan.rate)
    erasures = ErasureLoad(plan.address, plan.subjects, plan.erasures, folder / "ledger.jsonl")
    samples: list[dict[str, Any]] = []
    ending = asyncio.create_task(_end(plan.seconds, stop))
    await asyncio.gather(
        predictions.run(plan.connections, stop), erasures.run(stop), _watch(plan, stop, samples)
    )
    ending.cancel()
    predictions.save(folder / "predictions.npz")
    figures = {
        "erasures": [asdict(e) for e in erasures.erasures],
        "answers": erasures.answers,
        "cut": predictions.cut,
        "unsent": predictions.unsent,
        "samples": samples,
    }
    (folder / "figures.json").write_text(json.dumps(figures))


async def _end(seconds: float, stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with suppress(TimeoutError):
        await asyncio.wait_for(reader.read(), seconds)
    stop.set()


async def _watch(plan: Plan, stop: asyncio.Event, samples: list[dict[str, Any]]) -> None:
    """How many wait, every second."""
    if not plan.watch:
        return
    client = Client(plan.address)
    while not stop.is_set():
        answer = await client.ask("GET", "/v1/status")
        if answer is not None and answer[0] == 200:
            samples.append({"at": time.monotonic(), "pending": answer[1]["pending"]})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    client.close()


def main() -> None:
    plan = Plan.of(sys.stdin.readline())
    gc.disable()  # nothing here runs in circles, and pauses would count as the service's
    try:
        import uvloop

        uvloop.run(generate(plan))
    except ImportError:
        asyncio.run(generate(plan))


if __name__ == "__main__":
    main()
