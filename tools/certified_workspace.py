"""Certificates in a workspace, on real data: what do they cost, and does their log hold?

    UNFIT_DATA=DIR python tools/certified_workspace.py [--people 100] [--quick]

Patients of the Diabetes data leave one at a time, from a workspace with certificates and from one
without, in turn. Then the log is exported and checked from its first entry to its last by verify.py
alone, in a Python that has no package but cryptography. --quick: made-up patients, a few seconds.
Prints Markdown.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cryptography
import numpy as np
import pyarrow as pa
from pyarrow import parquet
from verdict_study import LABEL, PERSON, made_up

from unfit.certify import verify
from unfit.certify.accountant import joint_mu
from unfit.certify.statement import parse_annex
from unfit.experiments.machine import machine
from unfit.store.records import CertificateRecord
from unfit.workspace import Workspace, init
from unfit.workspace.results import Forgotten

PACKAGES = ("cryptography", "cffi", "_cffi_backend*", "pycparser", "typing_extensions.py")


@dataclass(frozen=True)
class Erasure:
    """One patient leaving: seconds to the commit and of the whole call, with and without."""

    certified: Forgotten
    plain: Forgotten
    certified_seconds: float
    plain_seconds: float


def workspace(folder: Path, source: Path, name: str, epsilon: float | None) -> Workspace:
    ignore = [c for c in ("encounter_id",) if c in parquet.read_schema(source).names]
    made = {"label": LABEL, "subject": PERSON, "positive": ["<30", ">30"], "ignore": ignore}
    init(source, folder / name, max_categories=20, epsilon=epsilon, **made)  # type: ignore[arg-type]
    ws = Workspace(folder / name)
    ws.train()
    return ws


def trained_on(ws: Workspace, count: int) -> list[str]:
    """Random patients whom the model was trained on."""
    with ws.session() as session:
        dataset = session.dataset()
        codes = np.unique(dataset["subjects"][: dataset.n_train])
        chosen = np.random.default_rng(0).choice(codes, count, replace=False)
        return [str(dataset.subject_ids.text(int(code))) for code in chosen]


def forget(ws: Workspace, who: str) -> tuple[Forgotten, float]:
    start = time.perf_counter()
    done = ws.forget(subjects=[who])
    return done, time.perf_counter() - start


def erase(certified: Workspace, plain: Workspace, people: list[str]) -> list[Erasure]:
    done = []
    for who in people:
        one, first = forget(certified, who)
        other, second = forget(plain, who)
        done.append(Erasure(one, other, first, second))
    return done


def verified(folder: Path, log: bytes, keys: list[str]) -> str:
    """The last line that verify.py prints of the log, alone."""
    packages = folder / "packages"
    packages.mkdir()
    site = Path(cryptography.__file__).parents[1]
    for pattern in PACKAGES:
        for found in site.glob(pattern):
            os.symlink(found, packages / found.name)
    shutil.copy(verify.__file__, folder / "verify.py")
    (folder / "log.jsonl").write_bytes(log)
    (folder / "key").write_text("\n".join(keys))
    code = (
        f"import runpy, sys\nsys.path.append({str(packages)!r})\n"
        "sys.argv = ['verify.py', '--log', 'log.jsonl', '--key', 'key']\n"
        "runpy.run_path('verify.py', run_name='__main__')\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the log does not hold:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def found_mu(records: list[CertificateRecord]) -> list[float]:
    """What each release came to, by the annex; a training's first release is not counted."""
    return [parse_annex(r.annex.encode()).mu for r in records[1:] if r.annex is not None]


def study(table: pa.Table, count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "stays.parquet"
        parquet.write_table(table, source)
        with (
            workspace(folder, source, "certified", 1.0) as certified,
            workspace(folder, source, "plain", None) as plain,
        ):
            done = erase(certified, plain, trained_on(certified, count))
            show(certified, plain, done)
            keys = [key.text for key in certified.certificates.public_keys()]
            said = verified(folder, b"".join(certified.certificates.export()), keys)
            print(f"| verify.py, alone, of the whole log | {said} |")


def show(certified: Workspace, plain: Workspace, done: list[Erasure]) -> None:
    records = certified.store.certificates.find()
    head, mus = certified.certificates.head(), found_mu(records)
    versions = certified.store.versions.find()[1:]
    shares = [v.held_out.agreement for v in versions if v.held_out and v.held_out.agreement]
    kinds = [v.kind for v in versions]
    commits = [(e.certified.seconds or 0.0, e.plain.seconds or 0.0) for e in done]
    first, second = (statistics.median(values) for values in zip(*commits, strict=True))
    whole = [statistics.median(e.certified_seconds for e in done)]
    whole.append(statistics.median(e.plain_seconds for e in done))
    rows = [
        ("erasures; of these retrained", f"{len(done)}; {kinds.count('retrained')}"),
        ("seconds to the commit, median", f"{first:.3f}, without {second:.3f}"),
        ("seconds of the whole call, median", f"{whole[0]:.3f}, without {whole[1]:.3f}"),
        ("passes over the rows, median (largest)", f"{passes(certified)}, without {passes(plain)}"),
        ("held-out rows whose label is certain", f"{100 * min(shares):.2f} % at least"),
        ("joint mu and epsilon, as claimed", f"{head.joint_mu:.3f}, {head.joint_epsilon:.2f}"),
        ("joint mu, by what the releases came to", f"{joint_mu(mus):.4f}"),
        ("accuracy at the end", f"{versions[-1].accuracy:.4f}, without {last_accuracy(plain):.4f}"),
    ]
    print("| | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def passes(ws: Workspace) -> str:
    """How often the remaining rows were read for an erasure."""
    versions = ws.store.versions.find()[1:]
    read = [v.times.rows_read / v.rows for v in versions if v.times and v.times.rows_read]
    return f"{statistics.median(read):.1f} ({max(read):.1f})" if read else "none"


def last_accuracy(ws: Workspace) -> float:
    return ws.store.versions.find()[-1].accuracy or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    table = (
        made_up()
        if given.quick
        else parquet.read_table(Path(os.environ["UNFIT_DATA"]) / "diabetes130.parquet")
    )
    print(machine(), "\n")
    study(table, 10 if given.quick else given.people)


if __name__ == "__main__":
    main()
