"""What a run found, for people and for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from ..measure import machine
from .phases import Times
from .run import Beside, Options, Results

WINDOW_SECONDS = 10.0
BOUND_MS = 40.0


def figures(options: Options, results: Results) -> dict[str, Any]:
    load, findings = results.load, results.findings
    return {
        "machine": machine(),
        "options": {k: v for k, v in asdict(options).items() if k != "log"},
        "data": {"name": results.data, "rows": results.rows, "columns": results.width},
        "ready_seconds": results.ready,
        "full_speed": {
            "constant": results.constant,
            "service": results.full,
            "ratio": results.full / results.constant,
        },
        "predictions": {
            "rate": load.rate(),
            "ms": asdict(load.times()),
            "answered": int(load.within().sum()),
            "failed": load.failed,
            "unsent": load.unsent,
            "p95_by_10_s_ms": load.windows(WINDOW_SECONDS),
        },
        "erasures": {
            "in_force_ms": asdict(in_force(results)),
            "answers": load.answers,
            "retries": sum(e.tries - 1 for e in load.erasures),
            **asdict(findings),
            "good": findings.good,
        },
        "most_pending": max(load.pending, default=0),
        "pending": load.pending,
        "memory_mb": asdict(results.memory),
        "cores_busy": asdict(results.busy),
        "kills": [asdict(kill) for kill in results.kills],
        "jobs": {
            kind: [asdict(job) | {"p95_ratio": job.ratio} for job in rounds]
            for kind, rounds in results.jobs.items()
        },
    }


def in_force(results: Results) -> Times:
    """From the first sending of an erasure to the client's reading that it is in force."""
    each = [e.in_force - e.sent for e in results.load.erasures if e.in_force is not None]
    return Times.of(np.array(each))


def title(said: dict[str, object]) -> str:
    versions = said["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    return f"{said['processor']}, {said['cores']} cores, Python {said['python']}; {named}"


def lines(options: Options, results: Results) -> list[tuple[str, str]]:
    """What, and how much."""
    load, held, findings = results.load, results.memory, results.findings
    asked = f"{options.target_rate:g}/s asked for" if options.target_rate else "at full speed"
    made = [
        ("data", f"{results.data}: {results.rows:,} rows, {results.width} columns"),
        (
            "load",
            f"{options.seconds:g} s, {options.connections} connections, {asked}, "
            f"{options.rate_erasures:g} erasures/s, {_store_name(options.store)}",
        ),
        (
            "at full speed",
            f"{results.full:,.0f}/s; a constant answer {results.constant:,.0f}/s; "
            f"ratio {results.full / results.constant:.2f}",
        ),
        ("predictions", f"{load.rate():,.0f}/s, {_times(load.times())}"),
        ("p95 by 10 s", _windows(load.windows(WINDOW_SECONDS))),
        ("predictions that failed", f"{load.failed:,}; {load.unsent:,} more were not sent"),
        ("erasures in force after", _times(in_force(results))),
        (
            "erasures",
            f"{findings.accepted:,} accepted, {len(findings.lost)} lost, "
            f"{len(findings.twice)} applied twice, {len(findings.remembered)} remembered",
        ),
        ("versions", ", ".join(f"{n} {kind}" for kind, n in findings.versions.items())),
        ("predictions by a version too old", f"{findings.stale}"),
        ("most that waited", f"{max(load.pending, default=0)}"),
        (
            "memory",
            f"{held.start:.0f} MB to {held.end:.0f} MB; without pages of files "
            f"{held.own_start:.0f} to {held.own_end:.0f} MB{_trend(results)}",
        ),
    ]
    made.append(
        (
            "cores busy",
            f"{results.busy.service:.2f} the service, "
            f"{results.busy.ours - results.busy.service:.2f} the load, "
            f"{results.busy.others:.2f} others on this machine",
        )
    )
    made += [
        (f"kill -9 of {kill.what}", f"answers and a worker again after {kill.back:.1f} s")
        for kill in results.kills
    ]
    made += [(f"p95 beside {kind}", _beside(rounds)) for kind, rounds in results.jobs.items()]
    return made


def _beside(rounds: Sequence[Beside]) -> str:
    """The median round, and every one."""
    middle = sorted(rounds, key=lambda job: job.ratio)[len(rounds) // 2]
    each = ", ".join(f"{job.ratio:.2f}" for job in rounds)
    ended = sorted({job.state for job in rounds})
    return (
        f"{middle.ratio:.2f}x of alone ({middle.times.p95:.1f} ms against {middle.alone.p95:.1f} "
        f"ms), median of {each}; {np.median([job.seconds for job in rounds]):.1f} s each, "
        f"{' and '.join(ended)}; {sum(job.failed for job in rounds)} failed"
    )


def table(options: Options, results: Results, said: dict[str, object]) -> Table:
    made = Table(title=title(said), title_justify="left", show_header=False)
    made.add_column("what", no_wrap=True)
    made.add_column("how much", overflow="fold")
    for what, much in lines(options, results):
        made.add_row(what, much)
    return made


def _windows(each: Sequence[float]) -> str:
    if not each:
        return "no prediction was answered"
    within = sum(p95 <= BOUND_MS for p95 in each)
    return (
        f"median {np.median(each):.1f} ms, largest {max(each):.1f} ms; {within} of {len(each)} "
        f"within {BOUND_MS:g} ms"
    )


def _trend(results: Results) -> str:
    """Of memory; none where processes were started anew on the way."""
    if results.kills:
        return ""
    held = results.memory
    return f", {held.own_slope:+.1f} MB a minute{', flat' if held.flat else ''}"


def _times(times: Times) -> str:
    return f"p50 {times.p50:.1f} ms, p95 {times.p95:.1f} ms, p99 {times.p99:.1f} ms"


def _store_name(named: str) -> str:
    """Without the password that a URL may hold."""
    return named.partition(":")[0]
