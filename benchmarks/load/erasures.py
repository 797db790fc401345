"""Erasures: filed at a fixed rate until accepted, followed until in force, all in a ledger."""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .http_client import Address, Client

LOOK_SECONDS = 0.075
AGAIN_SECONDS = 0.2
LAST_SECONDS = 90.0  # for what is still under way at the end


@dataclass
class Erasure:
    """One request, by the client's clock."""

    key: str
    subject: str
    sent: float
    tries: int = 0
    id: int | None = None
    accepted: float | None = None
    in_force: float | None = None
    version: int | None = None


class ErasureLoad:
    """Files subjects one by one. Each line of the ledger is on its way to the disk at once."""

    def __init__(self, address: Address, subjects: Sequence[str], rate: float, ledger: Path):
        self._subjects, self._rate = subjects, rate
        self._ledger = ledger.open("a", buffering=1)
        self._desks = [Client(address) for _ in range(4)]
        self._looking = Client(address)
        self._under_way: list[Erasure] = []
        self.erasures: list[Erasure] = []
        self.answers: dict[str, int] = {}
        self._all_filed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Until stopped; then until nothing that was accepted is under way."""
        looking = asyncio.create_task(self._look())
        started = time.monotonic()
        filed: list[asyncio.Task[None]] = []
        for i, subject in enumerate(self._subjects if self._rate else ()):
            wait = started + i / self._rate - time.monotonic()
            try:
                await asyncio.wait_for(stop.wait(), max(0.0, wait))
                break
            except TimeoutError:
                desk = self._desks[i % len(self._desks)]
                filed.append(asyncio.create_task(self._file(subject, desk)))
        await stop.wait()
        last = asyncio.gather(*filed)
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await last
                self._all_filed = True
                await looking
        except TimeoutError:
            looking.cancel()
        for desk in (*self._desks, self._looking):
            desk.close()
        self._ledger.close()

    async def _file(self, subject: str, desk: Client) -> None:
        erasure = Erasure(uuid.uuid4().hex, subject, time.monotonic())
        self.erasures.append(erasure)
        self._note("sent", erasure)
        while erasure.id is None:
            erasure.tries += 1
            answer = await desk.ask(
                "POST", "/v1/erasures", {"subjects": [subject]}, {"idempotency-key": erasure.key}
            )
            self._count(answer)
            if answer is not None and answer[0] == 202:
                erasure.id, erasure.accepted = answer[1]["id"], time.monotonic()
                self._note("accepted", erasure)
                self._under_way.append(erasure)
            else:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _look(self) -> None:
        """The oldest first and one at a time, as those that wait are applied together."""
        while self._under_way or not self._all_filed:
            oldest = min(self._under_way, key=lambda e: e.id or 0, default=None)
            if oldest is not None:
                answer = await self._looking.ask("GET", f"/v1/erasures/{oldest.id}")
                self._count(answer)
                if answer is not None and answer[0] == 200 and answer[1]["in_force"]:
                    oldest.in_force, oldest.version = time.monotonic(), answer[1]["version"]
                    self._note("in force", oldest)
                    self._under_way.remove(oldest)
                    continue
            await asyncio.sleep(LOOK_SECONDS)

    def _count(self, answer: tuple[int, object] | None) -> None:
        said = "cut" if answer is None else str(answer[0])
        self.answers[said] = self.answers.get(said, 0) + 1

    def _note(self, what: str, erasure: Erasure) -> None:
        self._ledger.write(json.dumps({"what": what, **asdict(erasure)}) + "\n")
