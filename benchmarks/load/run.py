"""One run: the constant app, full speed, the load with its kills, the jobs, the checks."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from . import constant
from .checks import Findings, check
from .generator import Plan
from .http_client import Address
from .kills import Kill, Killer
from .monitor import CpuUse, Memory, Monitor
from .phases import Phase, Recording, Times
from .population import Population, populate
from .postgres import postgresql
from .service import Service

JOBS = {"audit": "/v1/audits", "retraining": "/v1/retrainings"}
JOB_SECONDS = 300.0
ROUNDS = 5
SETTLE_SECONDS = 2.0  # after what was before: the worker prepares for the next erasure
ANSWER_BYTES = 115  # of a prediction of two classes


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run; see `--help`."""

    seconds: float
    rate_erasures: float
    target_rate: float
    connections: int
    processes: int
    store: str
    kills: int
    jobs: bool
    quick: bool
    seed: int = 0
    log: Path | None = None  # where the service's log goes, to be kept

    @property
    def short(self) -> float:
        """Seconds of a measurement beside the load itself."""
        return min(8.0, max(1.5, self.seconds / 5))


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Predictions while a job ran."""

    seconds: float
    state: str
    alone: Times  # just before it
    times: Times
    failed: int
    others: float  # cores busy with other things meanwhile

    @property
    def ratio(self) -> float:
        return self.times.p95 / self.alone.p95


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a run measured."""

    data: str
    rows: int
    width: int
    ready: float  # seconds from the start of the service to its first answer
    constant: float  # predictions a second at full speed
    full: float
    load: Recording
    memory: Memory
    busy: CpuUse
    findings: Findings
    kills: list[Kill] = field(default_factory=list)
    jobs: dict[str, list[Beside]] = field(default_factory=dict)


def run_load(options: Options, show: Callable[[str], None]) -> Results:
    with tempfile.TemporaryDirectory(prefix="unfit-load-") as name, _store(options.store) as url:
        folder = Path(name)
        show("making a workspace")
        population = populate(folder, url, options.quick, options.seed)
        (folder / "bodies").write_bytes(b"\n".join(population.bodies))
        return _Run(folder, population, options, show).all()


@contextmanager
def _store(named: str) -> Iterator[str]:
    with postgresql() if named == "postgresql" else nullcontext(named) as url:
        yield url


class _Run:
    def __init__(
        self, folder: Path, population: Population, options: Options, show: Callable[[str], None]
    ) -> None:
        self._folder, self._population, self._options = folder, population, options
        self._show = show
        self._service = Service(
            population.folder,
            options.processes,
            options.log or folder / "service.log",
            folder / "scratch",
        )

    def all(self) -> Results:
        options, population = self._options, self._population
        self._show("a constant answer, at full speed")
        with constant.serving(options.processes, ANSWER_BYTES) as address:
            base = self._phase("constant", address, options.short, rate=0.0, watch=False).end()
        service = self._service
        service.start()
        try:
            ready = service.wait_ready()
            self._show("the service, at full speed")
            full = self._phase("full", service.address, options.short, rate=0.0).end()
            load, memory, busy, kills = self._load()
            jobs = self._jobs() if options.jobs else {}
        finally:
            service.stop()
        self._show("checking")
        findings = check(population.folder, load, population.rows_of)
        return Results(
            data=population.data,
            rows=population.rows,
            width=population.width,
            ready=ready,
            constant=base.rate(),
            full=full.rate(),
            load=load,
            memory=memory,
            busy=busy,
            findings=findings,
            kills=kills,
            jobs=jobs,
        )

    def _phase(
        self,
        name: str,
        address: Address,
        seconds: float,
        *,
        rate: float,
        erasures: float = 0.0,
        watch: bool = True,
    ) -> Phase:
        needed = int(seconds * erasures) + 1
        plan = Plan(
            address=address,
            seconds=seconds,
            connections=self._options.connections,
            rate=rate,
            erasures=erasures,
            bodies=str(self._folder / "bodies"),
            subjects=list(self._population.subjects[:needed]),
            folder=str(self._folder / name),
            watch=watch,
        )
        return Phase(plan)

    def _load(self) -> tuple[Recording, Memory, CpuUse, list[Kill]]:
        """Predictions and erasures together, with kills."""
        options, service = self._options, self._service
        self._show("predictions and erasures")
        monitor = Monitor(service)
        killer = Killer(service, options.kills, options.seconds, options.seed)
        phase = self._phase(
            "load",
            service.address,
            options.seconds,
            rate=options.target_rate,
            erasures=options.rate_erasures,
        )
        monitor.start()
        killer.start()
        recording = phase.end()
        killer.join()
        if killer.failure is not None:
            raise killer.failure
        return recording, *monitor.end(), killer.kills

    def _jobs(self) -> dict[str, list[Beside]]:
        """Predictions alone and then beside a job, in rounds: one short window says little."""
        rounds = 1 if self._options.quick else ROUNDS
        return {
            kind: [self._job(kind, path, f"{kind}-{i}") for i in range(rounds)]
            for kind, path in JOBS.items()
        }

    def _job(self, kind: str, path: str, name: str) -> Beside:
        options, service = self._options, self._service
        self._show(f"predictions beside {kind}")
        time.sleep(SETTLE_SECONDS)
        rate, alone_for = options.target_rate, options.short / 2
        alone = self._phase(f"before-{name}", service.address, alone_for, rate=rate).end().times()
        phase = self._phase(name, service.address, JOB_SECONDS, rate=rate)
        monitor = Monitor(service)
        monitor.start()
        time.sleep(1.0)
        started = time.monotonic()
        status, job = service.ask("POST", path, {} if kind == "audit" else None)
        if status != 202:
            raise RuntimeError(f"{path} answers {status}: {job}")
        while job["state"] in ("pending", "running") and time.monotonic() < started + JOB_SECONDS:
            time.sleep(0.1)
            _, job = service.ask("GET", f"{path}/{job['id']}")
        ended = time.monotonic()
        _, busy = monitor.end()
        recording = phase.stop()
        return Beside(
            seconds=ended - started,
            state=job["state"],
            alone=alone,
            times=recording.times(started, ended),
            failed=recording.failed,
            others=busy.others,
        )
