"""What `status` and `audit` print: a screen of at most 80 columns."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unfit.cli.common import PURGED_BY, plural

if TYPE_CHECKING:
    from unfit.audit import Attack
    from unfit.store.records import HeldOut
    from unfit.workspace.audit import Report
    from unfit.workspace.results import Status

_LEVELS = " ▁▂▃▄▅▆▇█"


def status_screen(found: "Status", console: Console) -> None:
    v = found.version
    if v is None:
        console.print(f"{found.path}: no model yet; next: unfit train", highlight=False)
        return
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    since = v.activated_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    facts.add_row("model", f"version {v.number} ({v.kind}, {found.method}), active since {since}")
    facts.add_row("test accuracy", accuracy_line(v.accuracy, v.held_out))
    if v.held_out is not None and v.held_out.initial_accuracy is not None and v.kind == "updated":
        initial = f"{v.held_out.initial_accuracy:.4f} on the same people when last trained"
        change = v.held_out.log_loss_change
        facts.add_row("", initial + ("" if change is None else f"; log-loss {change:+.4f} since"))
    facts.add_row(
        "remembered", f"{v.rows:,} training rows; {v.subjects:,} subjects in training and test"
    )
    if found.kept is not None:
        facts.add_row("rows kept", str(found.kept))
    facts.add_row(
        "forgotten",
        f"{plural(found.forgotten_rows, 'row')} in {plural(found.applied, 'request')}",
    )
    if found.unmatched:
        facts.add_row(
            "matched nobody",
            f"{plural(found.unmatched, 'request')}: nobody had any of "
            f"{'its' if found.unmatched == 1 else 'their'} ids",
        )
    facts.add_row("pending", plural(found.pending, "request"))
    facts.add_row("policy", f"retrain when: {', '.join(found.policy)}")
    if found.decisions:
        last = found.decisions[-1]
        why = f"{last.action} (version {last.version}): {last.reason}"
        first = f"first model (version {last.version})"
        facts.add_row("last decision", first if last.action == "open" else why)
    if found.certificates.entries or found.certificates.promised:
        facts.add_row("certificates", str(found.certificates))
    facts.add_row("summary", found.summary)
    if found.last_audit is not None:
        facts.add_row(
            "last audit",
            f"version {found.last_audit.version}: {found.last_audit.report.get('verdict')}",
        )
    if found.list_differs:
        facts.add_row(
            "deletion list", "has changed or is missing; the next command that writes checks it"
        )
    kept = found.retained
    if kept.rows and kept.until is not None:
        until = kept.until.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        facts.add_row(
            "kept for audits",
            f"{plural(kept.rows, 'deleted training row')} (retention.audit_window), the last "
            f"until {until}",
        )
    if kept.overdue_rows:
        facts.add_row(
            "overdue",
            f"{plural(kept.overdue_rows, 'deleted training row')} should have been purged by now, "
            f"but nothing has run since; {PURGED_BY}",
        )
    elif found.purge_due:
        facts.add_row("purge", f"not finished; {PURGED_BY}")
    console.print(facts, highlight=False)
    _estimates(found, console)
    _versions(found, console)


def accuracy_line(accuracy: float | None, held_out: "HeldOut | None") -> str:
    """An accuracy says little without the majority rate; AUC and log-loss say what it does not."""

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.4f}"

    if held_out is None:
        return shown(accuracy)
    return (
        f"{shown(accuracy)} (majority rate {shown(held_out.majority)}), AUC "
        f"{shown(held_out.auc)}, log-loss {shown(held_out.log_loss)}"
    )


def _estimates(found: "Status", console: Console) -> None:
    """The estimated disparity of the last versions, as bars against the threshold."""
    points = [(d.version, d.estimate, d.action) for d in found.decisions if d.estimate is not None]
    points = points[-60:]
    if len(points) < 2:
        return
    top = max(found.threshold * 1.25, *(e for _, e, _ in points)) or 1.0
    height = 4
    console.print(
        f"\nestimated disparity, versions {points[0][0]} to {points[-1][0]} "
        f"(threshold {found.threshold:g} %, R: retrained)",
        highlight=False,
    )
    line = round(height * found.threshold / top * 8)
    for row in range(height, 0, -1):
        at_line = 8 * (row - 1) < line <= 8 * row
        label = found.threshold if at_line else top * row / height
        text = Text(f"{label:8.2g} % ")
        for _, estimate, _action in points:
            eighths = round(height * 8 * estimate / top) - 8 * (row - 1)
            mark = _LEVELS[max(0, min(8, eighths))]
            style = "red" if estimate > found.threshold else "cyan"
            text.append(mark if mark != " " or not at_line else "-", style)
        console.print(text)
    marks = "".join("R" if action == "retrain" else "." for _, _, action in points)
    console.print(" " * 11 + marks, highlight=False)


def _versions(found: "Status", console: Console) -> None:
    table = Table(box=SIMPLE_HEAD)
    for name in ("version", "kind", "rows", "deleted", "accuracy", "time"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for v in found.versions[-8:]:
        accuracy = "-" if v.accuracy is None else f"{v.accuracy:.4f}"
        figures = (f"{v.rows:,}", f"{v.deleted:,}", accuracy, f"{1000 * v.seconds:,.0f} ms")
        table.add_row(str(v.number), v.kind, *figures)
    console.print(table)


def audit_screen(made: "Report", console: Console) -> None:
    lines = dict(made.audit.lines())
    lines["rows"] += " (held-out rows are not counted)"
    if made.deleted_from:
        lines["rows"] += f"; looked at {made.n_available:,} from {made.deleted_from}"
    lines["verdict"] = made.verdict
    version = f"{made.version} ({made.method}, sigma {made.sigma:g})"
    console.print(_grid([("version", version), *lines.items()]), highlight=False)
    if made.audit.attack is not None:
        attack_screen(made.audit.attack, console)


def attack_screen(attack: "Attack", console: Console) -> None:
    for title, test in attack.tests:
        console.print(f"\n[bold]{title}[/bold]", highlight=False)
        console.print(_grid(test.lines()), highlight=False)
    last = [("no release test", attack.note)] if attack.note else []
    console.print()
    console.print(_grid([*last, ("attack", attack.verdict)]), highlight=False)


def _grid(lines: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in lines:
        table.add_row(name, value)
    return table
