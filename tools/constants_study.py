"""Constants that forget, on real data: are they a fit on what remains, how often do they change?

    UNFIT_DATA=DIR python tools/constants_study.py [sequences|rate|accuracy ...] [--quick]

sequences   random sequences of erasures in workspaces of Adult and Diabetes: after every erasure
            the exported card is compared with a fit written here, on the raw rows that remain
rate        retrainings that constants make due, where people leave one at a time, in random orders
            and each time from another nine tenths of the data
accuracy    test accuracy with rounded constants against unrounded ones, on four data sets

Prints Markdown.
"""

import argparse
import io
import json
import logging
import math
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import unfit
from unfit.data import constants
from unfit.data.columns import Column
from unfit.data.dataset import Dataset
from unfit.data.encoding import Encoded, Encoding
from unfit.data.raw_rows import RawRows
from unfit.data.reader import Reader
from unfit.workspace import Workspace, init
from unfit.workspace.constants import compare

CLOSE = 1e-9  # nearer to a boundary than this, relatively, fractions decide


@dataclass(frozen=True)
class Number:
    """A rounded mean and deviation."""

    mean: float
    deviation: float


def reference_number(values: np.ndarray, min_rows: int) -> Number:
    """By the definition: floating point where that is safe, fractions where it is close."""
    known = values[~np.isnan(values)].astype(np.float64)
    n = len(known)
    if n < max(1, min_rows):
        return Number(0.0, 1.0)
    mean = math.fsum(known) / n
    variance = math.fsum((known - mean) ** 2) / n
    if np.all(known == known[0]):
        deviation = 1.0
    else:
        power = math.log2(variance) / 2
        if abs(power - math.floor(power) - 0.5) < CLOSE or variance < CLOSE * mean**2:
            variance = _exact_variance(known)
            deviation = 1.0
            while variance >= 2 * Fraction(deviation) ** 2:
                deviation *= 2
            while variance < Fraction(deviation) ** 2 / 2:
                deviation /= 2
        else:
            deviation = 2.0 ** math.floor(power + 0.5)
    step = deviation / 8
    steps = mean / step
    if abs(steps - math.floor(steps) - 0.5) < CLOSE * (1 + abs(steps)):
        exact = sum(map(Fraction, known.tolist())) / n / Fraction(step)
        return Number(math.floor(exact + Fraction(1, 2)) * step, deviation)
    return Number(math.floor(steps + 0.5) * step, deviation)


def _exact_variance(known: np.ndarray) -> Fraction:
    each = [Fraction(v) for v in known.tolist()]
    mean = sum(each) / len(each)
    return sum((v - mean) ** 2 for v in each) / len(each)


def reference_categories(
    texts: Sequence[str], min_rows: int, most: int
) -> tuple[set[str], set[str]]:
    """Names with a column, and names with enough rows and none."""
    enough = {t: n for t, n in Counter(texts).items() if n >= max(1, min_rows)}
    rungs = np.array([min_rows * 2.0**i * (1 + j / 4) for i in range(40) for j in range(4)])

    def rung(n: int) -> int:
        """The place of the highest rung that is not above n."""
        return int(np.flatnonzero(rungs <= n)[-1])

    ranked = sorted(enough, key=lambda t: (-rung(enough[t]), t))
    return set(ranked[:most]), set(ranked[most:])


def check_card(card: dict, rows: dict[str, Sequence], columns: dict, min_rows: int) -> list[str]:
    """Columns of an exported card that are not what a fit on these training rows gives.

    rows: by column, float32 values or texts ('' for missing). columns: of unfit.toml.
    """
    wrong = []
    parts = []
    for one in card["encoding"]["columns"]:
        name = one["column"]["name"]
        asked = columns[name]
        if asked["kind"] == "category":
            kept, others = reference_categories(rows[name], min_rows, asked["max_categories"])
            named = [t for t in one["categories"] if t is not None]
            right = set(named) == kept and set(one["others"]) == others
            hot = dict.fromkeys(named, 1)
            parts.append(np.array([hot.get(t, 0) for t in rows[name]], np.float64))
        else:
            values = np.asarray(rows[name], np.float32)
            number = reference_number(values, min_rows)
            if asked["kind"] == "boolean":
                right = (one["shift"], one["scale"], one["fill"]) == (0.0, 1.0, number.mean)
            elif asked.get("scale") != "standard" or "mean" in asked:
                right = True  # declared
            else:
                got = one["shift"], one["scale"], one["fill"]
                right = got == (number.mean, number.deviation, number.mean)
            filled = np.where(np.isnan(values), np.float32(one["fill"]), values)
            scaled = ((filled - one["shift"]) / one["scale"]).astype(np.float32)
            parts.append(scaled.astype(np.float64) ** 2)
        if not right:
            wrong.append(name)
    if card["encoding"]["norm_fitted"]:
        lengths = np.sqrt(np.sum(parts, axis=0))
        median = np.sort(lengths[lengths > 0])[(np.count_nonzero(lengths) - 1) // 2]
        if not abs(8 * math.log2(card["encoding"]["norm"] / median)) <= 0.5 + 1e-6:
            wrong.append("norm")
    return wrong


def training_rows(dataset: Dataset, live: np.ndarray) -> dict[str, np.ndarray]:
    """Raw training rows that remain, by column, from the files of a generation."""
    at = np.flatnonzero(live[: dataset.n_train])
    rows: dict[str, np.ndarray] = {}
    a = b = 0
    for name, kind in dataset.columns:
        if kind == "category":
            texts = np.array([t or "" for t in dataset.vocabularies[b]], object)
            rows[name] = texts[dataset["codes"][at, b]]
            b += 1
        else:
            rows[name] = dataset["values"][at, a]
            a += 1
    return rows


def exported_card(ws: Workspace) -> dict[str, Any]:
    _, content = ws.export()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return dict(json.loads(file.read("card.json")))


def differing(ws: Workspace) -> list[str]:
    """Columns whose constants are not those of the fit above on the training rows that remain."""
    with ws.session() as session:
        rows = training_rows(session.dataset(), session.live())
    card = exported_card(ws)
    return check_card(card, rows, ws.config.columns, ws.config.preprocessing.min_rows)


# --- the data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    file: str
    label: str
    subject: str | None
    ignore: tuple[str, ...] = ()


SOURCES = {
    "Adult": Source("adult.parquet", "income", None),
    "Diabetes": Source("diabetes130.parquet", "readmitted", "patient_nbr", ("encounter_id",)),
}


def data_folder() -> Path:
    return Path(os.environ["UNFIT_DATA"])


def workspace(name: str, at: Path, rows: int | None = None) -> Path:
    """A trained workspace of a public data set, with a fitted norm; rows: the first so many."""
    source = SOURCES[name]
    table = parquet.read_table(data_folder() / source.file)
    at.mkdir()
    parquet.write_table(table.slice(0, rows) if rows else table, at / "data.parquet")
    ignore = [column for column in source.ignore if column in table.column_names]
    init(
        at / "data.parquet",
        at / "ws",
        label=source.label,
        subject=source.subject,
        ignore=ignore,
        norm="fitted",
        random_state=0,
        threshold=100.0,
    )
    with Workspace(at / "ws") as ws:
        ws.train()
    return at


# --- 1. sequences --------------------------------------------------------------------------------


def sequences(name: str, numbers: range, steps: int, rows: int | None) -> str:
    """Erasures of 1 to 1,000 people, a third of them of the largest values of some column.

    numbers: of the sequences, each of which has randomness of its own."""
    checked = wrong = retrained = erased = 0
    with tempfile.TemporaryDirectory(prefix="unfit-constants-") as folder:
        base = workspace(name, Path(folder) / "base", rows)
        for i in numbers:
            rng = np.random.default_rng([i, len(name)])
            ours = Path(folder) / "ours"
            shutil.copytree(base, ours)
            with Workspace(ours / "ws") as ws:
                for _ in range(steps):
                    with ws.session() as session:
                        people = _drawn(session.dataset(), session.live(), rng, rows)
                    made = ws.forget(subjects=people)
                    erased += len(people)
                    retrained += made.action == "retrain"
                    checked += 1
                    wrong += bool(differing(ws))
            shutil.rmtree(ours)
    return f"| {name} | {len(numbers)} | {checked:,} | {erased:,} | {retrained:,} | {wrong} |"


def _drawn(
    dataset: Dataset, live: np.ndarray, rng: np.random.Generator, rows: int | None
) -> list[str]:
    most = 1000 if rows is None else 100
    count = int(2 ** rng.uniform(0, math.log2(most)))
    at = np.flatnonzero(live[: dataset.n_train])
    if rng.random() < 1 / 3:
        values = dataset["values"][at, rng.integers(dataset["values"].shape[1])]
        at = at[np.argsort(-values, kind="stable")[:count]]
    else:
        at = rng.choice(at, count, replace=False)
    texts = (dataset.subject_ids.text(int(p)) for p in np.unique(dataset["subjects"][at]))
    return [text for text in texts if text is not None]


# --- 2. rate -------------------------------------------------------------------------------------

KINDS = ("mean", "deviation", "missing value", "fewer than", "choice", "bound")


def rate(name: str, orders: int, each: int, rows: int | None) -> str:
    """People leave one at a time; constants are fitted anew as a retraining would."""
    kinds: Counter[str] = Counter()
    by_order: list[int] = []
    cards = 0
    with tempfile.TemporaryDirectory(prefix="unfit-constants-") as folder:
        base = workspace(name, Path(folder) / "base", rows)
        with Workspace(base / "ws") as ws, ws.session() as session:
            start, data = session.open_model().card.encoding, session.dataset()
        for seed in range(orders):
            found, changed = _one_order(data, start, each, seed)
            by_order.append(len(found))
            cards += changed
            for reason in found:
                kinds[next(kind for kind in KINDS if kind in reason)] += 1
    total = orders * each
    shares = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    per_thousand = 1000 * sum(by_order) / total
    return (
        f"| {name} | {total:,} | {per_thousand:.2f} | {1000 * max(by_order) / each:.0f} | "
        f"{sum(n == 0 for n in by_order)} of {orders} | {1000 * cards / total:.2f} | {shares} |"
    )


def _one_order(data: Dataset, like: Encoding, each: int, seed: int) -> tuple[list[str], int]:
    """Starts from nine tenths of the people, drawn at random, and constants fitted to them."""
    rng = np.random.default_rng(seed)
    live, starts = data.live, data["subject_starts"]
    columns = [c.column for c in like.columns]
    sizes = constants.Sizes.of(columns, data.vocabularies)

    def training() -> Iterator[RawRows]:
        at = np.flatnonzero(live[: data.n_train])
        for part in np.array_split(at, max(1, len(at) // 30_000)):
            yield data.raw_rows(part)

    def fitted(total: constants.Sums) -> tuple[Encoding, constants.Sums, list[np.ndarray]]:
        made = constants.fitted_columns(columns, data.vocabularies, total, like.min_rows or 1)
        total = constants.with_lengths(total, made, data.vocabularies, training())
        norm = constants.norm_of(total.lengths, like.min_rows or 1)
        made = replace(made, norm=norm, norm_fitted=True, clip=True)
        return made, total, made.slots(data.vocabularies)

    people = rng.permutation(np.unique(data["subjects"][: data.n_train]))
    absent = people[: len(people) // 10]
    live[np.isin(data["subjects"], absent)] = False
    encoding, total, slots = fitted(constants.sums_of(training(), sizes))
    found: list[str] = []
    cards = 0
    for person in people[len(absent) : len(absent) + each]:
        rows = data["subject_rows"][starts[person] : starts[person + 1]]
        live[rows] = False
        gone = constants.Sums.of(data.raw_rows(rows), sizes)
        X = encoding.unbounded(data.raw_rows(rows), slots)
        total = total - replace(gone, lengths=constants.lengths_of(X))
        changes = compare(encoding, data, live, total)
        if changes.due:
            found.append(changes.due[0])
            encoding, total, slots = fitted(total)
        elif changes.encoding != encoding:
            encoding = changes.encoding
            cards += 1
    return found, cards


# --- 3. accuracy ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    columns: list[Column]
    values: np.ndarray
    codes: np.ndarray
    texts: list[list[str | None]]
    labels: np.ndarray
    groups: np.ndarray  # rows of one group are all held out, or none

    def raw(self) -> RawRows:
        return RawRows(self.values, self.codes)


def tables(name: str, rows: int | None) -> Table:
    if name in SOURCES:
        return _from_parquet(SOURCES[name], rows)
    with np.load(
        data_folder() / {"COVTYPE": "covtype.npz", "HIGGS": "higgs_subset.npz"}[name]
    ) as f:
        if name == "HIGGS":
            at = np.flatnonzero(f["natural"])[:rows]
            values, labels = f["X"][at], f["y"][at].astype(int)
            codes, texts = np.empty((len(at), 0), np.int32), []
        else:
            at = np.random.default_rng(0).permutation(len(f["cover_type"]))[: rows or None]
            values, labels = f["X_num"][at], (f["cover_type"][at] == 2).astype(int)
            codes = np.c_[f["wilderness"][at], f["soil"][at]].astype(np.int32)
            texts = [[str(i) for i in range(int(c.max()) + 1)] for c in codes.T]
    columns = [Column(f"x{j}", "numeric") for j in range(values.shape[1])]
    columns += [Column(f"c{j}", "category") for j in range(codes.shape[1])]
    groups = np.arange(len(values))
    return Table(columns, values.astype(np.float32), codes, texts, labels, groups)


def _from_parquet(source: Source, rows: int | None) -> Table:
    table = parquet.read_table(data_folder() / source.file).slice(0, rows).combine_chunks()
    left_out = {source.label, source.subject, *source.ignore}
    columns = []
    for field in table.schema:
        if field.name not in left_out:
            kind = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            columns.append(Column(field.name, "numeric" if kind else "category"))
    reader = Reader(columns)
    (batch,) = table.to_batches()
    raw = reader.read(batch, 0, source.file)
    labels = np.array(table[source.label].to_pylist())
    labels = (labels != "NO").astype(int) if source.label == "readmitted" else labels
    groups = np.arange(len(raw))
    if source.subject is not None:
        groups = np.unique(table[source.subject].to_numpy(), return_inverse=True)[1]
    return Table(
        columns, raw.values, raw.codes, [v.texts for v in reader.vocabularies], labels, groups
    )


def unrounded(table: Table, train: np.ndarray, like: Encoding) -> Encoding:
    """Means, deviations, the most frequent categories and the norm as they are."""
    made, a, b = [], 0, 0
    for c in table.columns:
        if c.kind == "category":
            counts = np.bincount(table.codes[train, b], minlength=len(table.texts[b]))
            ranked = sorted((-int(n), t or "") for n, t in zip(counts, table.texts[b], strict=True))
            kept = tuple(sorted(t for n, t in ranked[: c.max_categories] if -n >= 10))
            made.append(Encoded(c, categories=kept, constants="fitted"))
            b += 1
        else:
            known = table.values[train, a].astype(np.float64)
            mean, sd = float(np.nanmean(known)), float(np.nanstd(known))
            made.append(Encoded(c, shift=mean, scale=sd or 1.0, fill=mean, constants="fitted"))
            a += 1
    encoding = Encoding(tuple(made))
    if not like.norm_fitted:
        return encoding
    X = encoding.unbounded(table.raw()[train], encoding.slots(table.texts))
    norm = float(np.median(np.sqrt(np.einsum("ij,ij->i", X, X, dtype="f8"))))
    return replace(encoding, norm=norm, clip=True)


def accuracy(name: str, splits: int, rows: int | None) -> str:
    """Mean over splits; the same split, solver and l2 for both."""
    table = tables(name, rows)
    cells = []
    for norm in (0.0, None):
        each = []
        for seed in range(splits):
            groups = np.unique(table.groups)
            rng = np.random.default_rng(seed)
            held = np.isin(table.groups, rng.choice(groups, len(groups) // 5, replace=False))
            train = np.flatnonzero(~held)
            blocks = [table.raw()[train]]
            rounded = constants.fit(
                table.columns, table.texts, lambda blocks=blocks: iter(blocks), norm, 10
            )
            right = []
            for encoding in (rounded, unrounded(table, train, rounded)):
                X = encoding.encode(table.raw(), encoding.slots(table.texts))
                model = unfit.LogisticRegression(l2=1e-4, random_state=0)
                model.fit(X[train], table.labels[train])
                right.append(float(np.mean(model.predict(X[held]) == table.labels[held])))
            each.append(right)
        ours, exact = np.mean(each, axis=0)
        spread = 100 * np.std([a - b for a, b in each])
        cells.append(
            f"{100 * exact:.3f} | {100 * ours:.3f} | {100 * (exact - ours):+.3f} ± {spread:.3f}"
        )
    return f"| {name} | {' | '.join(cells)} |"


def main(
    parts: Sequence[str], quick: bool, names: Sequence[str], numbers: range = range(150)
) -> None:
    logging.getLogger("unfit").setLevel(logging.ERROR)
    rows = 3000 if quick else None
    own = [name for name in names if name in SOURCES]
    if "sequences" in parts:
        print("| data | sequences | erasures | people erased | retrained | cards that differ |")
        print("|---|---:|---:|---:|---:|---:|")
        for name in own:
            print(sequences(name, range(2) if quick else numbers, 3, rows), flush=True)
    if "rate" in parts:
        heads = (
            "data",
            "people, one at a time",
            "retrainings per 1,000",
            "in the worst order",
            "orders without any",
            "cards rewritten in place per 1,000",
            "what changed",
        )
        print(f"| {' | '.join(heads)} |")
        print("|---|---:|---:|---:|---:|---:|---|")
        for name in own:
            print(rate(name, *((2, 100) if quick else (20, 1000)), rows), flush=True)
    if "accuracy" in parts:
        print(
            "| data | unrounded | rounded | lost, points | unrounded, norm fitted | rounded | "
            "lost, points |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|")
        for name in names:
            print(accuracy(name, 1 if quick else 3, rows), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", nargs="*", default=["Adult", "Diabetes", "COVTYPE", "HIGGS"])
    parser.add_argument("--sequences", type=int, nargs=2, default=[0, 150], metavar="N")
    given = parser.parse_args()
    parts = given.parts or ("sequences", "rate", "accuracy")
    main(parts, given.quick, given.data, range(*given.sequences))
