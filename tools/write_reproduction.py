"""Write docs/reproduction.md, its pictures and tables from a finished study.

    python tools/write_reproduction.py FOLDER

FOLDER is the --output of `unfit reproduce`. Pictures, tables and the runs themselves (runs.parquet,
with what is known of the data sets in subjects.json) go to docs/reproduction/: a test computes
every sentence of the document from them again.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from unfit.experiments.agreement import Agreement
from unfit.experiments.claims import Claim
from unfit.experiments.significance import LEVEL
from unfit.experiments.study import Drawn, Study, StudyResult, reproduce
from unfit.experiments.table import Table, three_digits
from unfit.pages.reproduction import CORRECTED, reproduction_page, speed_check

DOCS = Path(__file__).parents[1] / "docs"
HOW = (
    "Every sentence below and each figure in it is computed from the runs. Disparity (AccDis) is "
    "given in percentage points above its floor: what two retrainings of the same rows differ by, "
    f"at the same sigma. Cases are compared seed by seed, one-sided, by an exact test of flipped "
    f"signs; `<` or `>` means p of at most {LEVEL:g}, `~` that the seeds do not tell. Nothing was "
    "corrected for the number of tests."
)
UNKEPT = ["processor", "load", "when", "cores"]  # of runs that are committed
SHOWN = 60  # rows of a table that are shown in the document itself
ENOUGH = 0.4  # the share of a figure's runs below which it would be mostly empty, and is left out


def main(folder: Path) -> None:
    study = Study(folder, draw=True)
    outcome = reproduce(study)
    (folder / "report.html").write_text(reproduction_page(outcome), encoding="utf-8")
    place = DOCS / "reproduction"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for drawn in shown(outcome):
        for path in drawn.pictures.values():
            small = len(drawn.pictures) > 1
            for kind in (".png",) if small else (".png", ".svg"):
                shutil.copyfile(path.with_suffix(kind), place / path.with_suffix(kind).name)
    for table in (*outcome.tables, *outcome.data):
        table.write(place)
    outcome.findings.frame.drop(columns=UNKEPT, errors="ignore").to_parquet(place / "runs.parquet")
    subjects = [asdict(subject) for subject in outcome.findings.subjects]
    (place / "subjects.json").write_text(json.dumps(subjects, indent=1) + "\n", encoding="utf-8")
    (DOCS / "reproduction.md").write_text(document(outcome), encoding="utf-8")


def document(outcome: StudyResult) -> str:
    lines = [
        "# The paper, reproduced",
        "",
        f"{_how_much(outcome)} of *Certifiable Machine Unlearning for Linear Models* (Mahadevan "
        "and Mathioudakis), run with unfit on real data, beside what the authors published. This "
        "page is written by `tools/write_reproduction.py` from the runs of",
        "",
        "```console",
        "$ UNFIT_DATA=... unfit reproduce all",
        "```",
        "",
        f"{outcome.finished:,} runs; {_cost(outcome)} {_machine(outcome)}{_missing(outcome)} HIGGS "
        "is a real "
        "subset of the UCI set; EPSILON was not to be had. How to add a method, a data set or a "
        "law: [extending.md](extending.md).",
        "",
        "## What the paper claims",
        "",
        HOW,
        "",
    ]
    lines += claim_lines(outcome.claims)
    lines += ["## Beside the published values", ""]
    lines += agreement_lines(outcome.agreements)
    for title, ours, whose, theirs, exact in speed_check(outcome):
        reached = "" if ours >= theirs else " **Not reached.**"
        lines.append(
            f"- {title}: best speed-up {three_digits(ours)}x ({whose}) against our own SGD "
            f"retraining; published {theirs:g}x; {three_digits(exact)}x against the fastest exact "
            f"one.{reached}"
        )
    if len(outcome.farther):
        lines += [
            "",
            "Values over half of a bound:",
            "",
            "| data set | case | fraction | rows | ours | published | difference | why |",
            "|---|---|---:|---|---:|---:|---:|---|",
        ]
        for row in outcome.farther.to_dict("records"):
            lines.append(
                f"| {row['dataset']} | {row['case']} | {row['fraction']} | {row['part']} | "
                f"{row['ours']:.4f} | {row['published']:.4f} | {row['difference']:+.4f} | "
                f"{row['why']} |"
            )
    lines += ["", "## Figures", ""]
    lines += _left_out(outcome)
    for drawn in shown(outcome):
        plan = drawn.plan
        if len(drawn.pictures) > 1:
            continue
        where = f"The paper's {plan.number}. " if plan.number else ""
        lines += [
            f"### {plan.title}",
            "",
            f"![{plan.title}](reproduction/{plan.name}.png)",
            "",
            f"{where}{plan.caption}",
            "",
        ]
        lines += [
            line for table in outcome.data if table.name == plan.name for line in _file(table)
        ]
    lines += ["## Tables", ""]
    for table in outcome.tables:
        lines += [f"### {table.title}", ""]
        if len(table.rows) <= SHOWN:
            lines += [table.markdown()]
        else:
            lines += [
                f"{len(table.rows)} rows: [text](reproduction/{table.name}.txt), "
                f"[CSV](reproduction/{table.name}.csv).",
                "",
            ]
        if table.note:
            lines += [table.note, ""]
    for drawn in shown(outcome):
        if len(drawn.pictures) > 1:
            lines += ["## Appendix", ""]
            lines += [drawn.plan.caption, ""]
            lines += [f"- [{name}](reproduction/{name}.png)" for name in drawn.pictures]
    lines += ["", "## What we corrected, and what that changes", ""]
    lines += [f"- **{what}.** {why}" for what, why in CORRECTED]
    return "\n".join(lines) + "\n"


def _file(table: Table) -> list[str]:
    """Where the figures of a picture are."""
    name = table.name
    links = f"[text](reproduction/{name}.txt), [CSV](reproduction/{name}.csv)"
    return [f"Its {len(table.rows)} rows of figures: {links}. {table.note}".strip(), ""]


def shown(outcome: StudyResult) -> list[Drawn]:
    """The figures that have enough of their runs."""
    return [drawn for drawn in outcome.figures if drawn.share >= ENOUGH]


def _left_out(outcome: StudyResult) -> list[str]:
    without = [drawn for drawn in outcome.figures if drawn.share < ENOUGH]
    if not without:
        return []
    listed = ", ".join(f"{drawn.plan.title} ({100 * drawn.share:.0f} %)" for drawn in without)
    return [
        f"Left out, since less than {100 * ENOUGH:.0f} % of their runs were done (in brackets, how "
        "many): "
        f"{listed}. `unfit reproduce all --resume` does the rest.",
        "",
    ]


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    lines = []
    for claim in claims:
        lines.append(f"**{claim.sentence}** {claim.summary.capitalize()}.")
        for title, verdict in claim.verdicts.items():
            said = verdict.said if verdict.holds else f"**{verdict.said}**"
            lines.append(f"- {said} on {title}: {verdict.figure}")
        lines.append("")
    return lines


def agreement_lines(agreements: Sequence[Agreement]) -> list[str]:
    return [
        f"- {'Within' if each.within else '**Out of**'} bounds. {each.sentence}."
        for each in agreements
    ]


def _how_much(outcome: StudyResult) -> str:
    if outcome.missing:
        return "Some figures and tables"
    return "Every figure and table"


def _missing(outcome: StudyResult) -> str:
    """What the plans name and was not run, by kind and data set."""
    if not outcome.missing:
        return ""
    counts = Counter((run.kind, run.dataset) for run in outcome.missing)
    listed = ", ".join(f"{count} {kind} on {name}" for (kind, name), count in counts.items())
    return f" {len(outcome.missing):,} more that the plans name were not run: {listed}."


def _cost(outcome: StudyResult) -> str:
    """Seconds that the runs took: beside each other, and alone."""
    frame = outcome.findings.frame
    timed = frame["kind"].isin(["timing", "stream"])
    alone = timed & ~beside_others(frame)
    together, after = (
        frame.loc[~alone, "seconds_spent"].sum(),
        frame.loc[alone, "seconds_spent"].sum(),
    )
    said = f"{together / 3600:.1f} hours of runs one thread each"
    if after == 0:
        said += "; no times were measured alone on the machine."
    else:
        said += f", and {after / 3600:.1f} hours of times alone on the machine."
    if (timed & ~alone).any():
        said += (
            " The seconds of the pipeline over time were measured beside other runs: their order "
            "counts, not their size."
        )
    return said


def beside_others(frame: pd.DataFrame) -> pd.Series:
    """Runs whose seconds were measured while the machine did something else, too."""
    if "beside" not in frame:
        return pd.Series(False, frame.index)
    return frame["beside"].eq(True)


def _machine(outcome: StudyResult) -> str:
    found = outcome.machine
    versions = found["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    return f"{found['processor']}, {found['cores']} cores; {named}."


if __name__ == "__main__":
    main(Path(sys.argv[1]))
