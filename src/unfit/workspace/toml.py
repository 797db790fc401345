"""Writing unfit.toml: every choice with a comment, as `unfit init` proposes it."""

import json
import tomllib
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from unfit.data.profile import Profile
from unfit.workspace.config import (
    UNITS,
    Config,
    ModelTable,
    PolicyTable,
    PreprocessingTable,
    RetentionTable,
    RolesTable,
    SourceTable,
    SplitTable,
    StoreTable,
    check,
)


def _toml(value: object) -> str:
    """A TOML value; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def new_config(
    source: SourceTable, roles: RolesTable, found: Sequence[Profile], *,
    model: ModelTable, policy: PolicyTable, store: StoreTable, test_share: float,
    max_categories: int, norm: str, retention: RetentionTable,
) -> Config:  # fmt: skip
    """What `unfit init` proposes for the columns it found."""
    columns: dict[str, Any] = {}
    for p in found:
        columns[p.name] = {"kind": p.kind}
        if p.kind == "numeric":
            columns[p.name] |= {"scale": "standard", "missing": "mean"}
            if p.decimal == ",":
                columns[p.name]["decimal"] = ","
            if p.lenient:
                columns[p.name]["unreadable"] = "missing"
        elif p.kind == "boolean":
            columns[p.name] |= {"missing": "mean"}
        else:
            columns[p.name] |= {"max_categories": max_categories, "unseen": "ignore"}
    preprocessing = PreprocessingTable(norm=norm)  # type: ignore[arg-type]  # checked just below
    config = Config(
        uuid.uuid4().hex, source, roles, columns, SplitTable(test_share=test_share), model,
        preprocessing, policy, retention, store,
    )  # fmt: skip
    return check(tomllib.loads(render(config, found)))


def render(config: Config, found: Sequence[Profile] = ()) -> str:
    """The text of unfit.toml."""
    profiles = {p.name: p for p in found}
    lines: list[str] = []

    def put(key: str, value: object, note: str, off: bool = False) -> None:
        text = f"{'# ' if off else ''}{key} = {_toml(value)}"
        lines.append(f"{text:<36}  # {note}" if note else text)

    def table(name: str, *notes: str) -> None:
        lines.extend(["", *(f"# {note}" for note in notes), f"[{name}]"])

    lines += [
        "# A workspace of unfit. `unfit init` has made these choices; change them before",
        "# `unfit train`. Keys that are commented out show their default or an example.",
        "",
    ]
    put("id", config.id, "names this workspace in its store; leave it")
    s = config.source
    table("source", "Where the rows come from. Read once, by `unfit train`.")
    if s.path is not None:
        put("path", s.path, "relative to this file")
        put("format", s.format or "csv", "csv, parquet or libsvm; by default as the name says",
            off=s.format is None)  # fmt: skip
        put("missing", s.missing, "in CSV, these texts mean: no value")
        cells, letters = s.delimiter is None, s.encoding is None
        put("delimiter", s.delimiter or ",", "in CSV, what stands between cells", off=cells)
        put("encoding", s.encoding or "utf-8", "of CSV, such as latin-1 or utf-16", off=letters)
    else:
        put("url", s.url, "sqlite:///..., postgresql://..., or $NAME of a variable that holds it")
        if s.table is not None:
            put("table", s.table, 'or query = "SELECT ..."')
        else:
            put("query", s.query, 'or table = "..."')
    r = config.roles
    table("roles", "Columns that are not features.")
    put("label", r.label, "what to predict")
    put("subject", r.subject or "", 'whose row it is; "": every row its own subject')
    put("row_id", r.row_id or "", 'names a row for good; "": its number in the source, from 0')
    put("positive", r.positive, "these labels against the rest; []: each is a class")
    put("drop_missing", r.drop_missing, "leave rows without one of these out, or refuse them")
    table("split", "Held-out subjects, with all their rows: what accuracy is measured on.")
    put("test_share", config.split.test_share, "share of subjects")
    put("seed", config.split.seed, "")
    m = config.model
    table("model")
    put("method", m.method, "fisher, influence, deltagrad or retrain")
    put("l2", m.l2, "ridge penalty per row")
    put("sigma", m.sigma, "noise; more hides more and costs accuracy")
    put("deletion_batch_size", m.deletion_batch_size or "all",
        "fisher, influence: rows a step; fewer is closer and slower")  # fmt: skip
    put("period", m.period, "deltagrad: every so many steps exactly")
    put("burn_in", m.burn_in, "deltagrad: so many exact steps first")
    put("solver", m.solver, "newton, sgd or auto")
    put("epochs", m.epochs, "sgd")
    put("batch_size", m.batch_size or "all", "sgd")
    put("learning_rate", m.learning_rate, "sgd")
    put("tol", m.tol, "newton: stop at |gradient sum| <= tol x rows")
    put("fit_intercept", m.fit_intercept, "")
    put("random_state", 0 if m.random_state is None else m.random_state,
        "fixes all randomness; leave out for fresh noise each time",
        off=m.random_state is None)  # fmt: skip
    table("preprocessing")
    put("norm", config.preprocessing.norm,
        "rows are divided by it, longer ones cut to it: none, fitted, or a number")  # fmt: skip
    put("min_rows", config.preprocessing.min_rows,
        "fewer rows make no category and no mean: they would be about single people")  # fmt: skip
    p = config.policy
    table(
        "policy",
        "When an erasure is answered by retraining: any of the named.",
        'A changed constant or an emptied class retrains under each of them, even "never".',
    )
    put("retrain_when", p.retrain_when,
        "of these and: accuracy, count, share, always, never")  # fmt: skip
    put("distance", p.distance,
        "percent of their length that the weights may be from a retraining's")  # fmt: skip
    put("log_loss", p.log_loss, "change on held-out people since training, up or down")
    put("disparity", p.disparity,
        "percent: the paper's estimate c x AccErr_init, fall or rise; and in audits")  # fmt: skip
    put("accuracy", p.accuracy, "floor of the test accuracy")
    put("count", p.count, "rows gone since training")
    put("share", p.share, "share of the rows gone since training")
    put("theta", p.theta, "share of rows deleted in the rehearsal that learns c")
    table("retention")
    put(
        "audit_window",
        _window(config.retention.audit_window),
        "keep deleted rows so long for audits: none, 30d, 12h, 4w",
    )
    put("deletion_list", config.retention.deletion_list,
        "ids of the forgotten, outside the workspace; \"\": beside it")  # fmt: skip
    table("store")
    put("url", config.store.url,
        "sqlite (in the workspace), postgresql://..., or $NAME of a variable")  # fmt: skip
    v = config.service
    table("service", "What `unfit serve` listens on and allows.")
    put("host", v.host, "0.0.0.0 behind a proxy that speaks TLS")
    put("port", v.port, "")
    put("processes", v.processes, "that answer requests; more want PostgreSQL")
    put("queue", v.queue, "erasures that may wait; more are answered 429")
    put("max_body_mb", v.max_body_mb, "of one request")
    put("max_rows", v.max_rows, "of one prediction, in JSON or Arrow")
    put("rate", v.rate, "requests a second, for each token and process")
    put("sign_in", _window(v.sign_in), "how long the dashboard remembers a token")
    lines += [
        "", "# Features. Constants that are not declared are fitted to the training rows: they are",
        "# derived from the data, rounded, explained on the model's card, and follow erasures.",
        "# numeric:  scale = \"standard\" (mean, sd), \"range\" (declared min, max) or \"none\";",
        "#           missing = \"mean\", \"error\" or a number; decimal = \",\" for 1,5;",
        "#           unreadable = \"missing\" (what is no number is none) or \"error\"",
        "# boolean:  true/false, yes/no, t/f, 1/0",
        "# category: one column each for the most frequent (max_categories, min_rows above); a",
        "#           missing value is a category;",
        "#           unseen = \"ignore\" (none of the known) or \"error\"",
    ]  # fmt: skip
    for name, made in config.columns.items():
        seen = profiles.get(name)
        lines += ["", f"[columns.{_toml(name)}]"]
        if seen is not None:
            distinct = "over 1,000" if seen.distinct is None else _about(seen.distinct)
            lines.append(f"# {distinct} different values, {_about(seen.missing)} missing")
            if seen.lenient and seen.unreadable:
                more = _about(seen.unreadable)
                lines.append(f"# {more} more are no numbers and taken for missing")
        lines += [f"{key} = {_toml(value)}" for key, value in made.items()]
        if made["kind"] == "numeric":
            lines += ["# mean = 0.0", "# sd = 1.0"]
        elif made["kind"] == "category":
            lines += ['# categories = ["a", "b"]']
    return "\n".join(lines) + "\n"


def _about(count: int) -> str:
    """To one figure: exact counts of all rows, less those of the rows that are left one day, would
    tell what single people had. Nobody rewrites these comments when somebody is forgotten."""
    if count == 0:
        return "none"
    if count < 10:
        return "fewer than 10"
    unit = 10 ** (len(str(count)) - 1)
    return f"about {(count + unit // 2) // unit * unit:,}"


def _window(window: timedelta) -> str:
    seconds = int(window.total_seconds())
    unit = next((u for u in "wdhms" if seconds and seconds % UNITS[u] == 0), "s")
    return f"{seconds // UNITS[unit]}{unit}" if seconds else "none"
