"""The audit of a workspace, and the deleted rows it may look at.

Deleted rows come from the audit window, if the owner keeps one, or from the auditor's own file;
either way they are encoded for the active model.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.audit import Audit, Claim, Effort, Question, attack, compare
from unfit.audit.verdict import Outcome
from unfit.certify.shadow_models import Size
from unfit.core.objective import Rows
from unfit.data.encoding import Rows as EncodedRows
from unfit.data.reader import Reader
from unfit.data.roles import Roles
from unfit.data.sources import Location, Source, open_source
from unfit.data.text import as_text
from unfit.engines.base import Engine
from unfit.errors import BadInput, Unavailable
from unfit.methods import METHODS, Method, State
from unfit.progress import ProgressCallback
from unfit.store.records import IdKind, Version
from unfit.store.store import Store
from unfit.workspace.config import Config
from unfit.workspace.constants import CLASS_WEIGHTS, differing
from unfit.workspace.constants import verdict as constants_verdict
from unfit.workspace.model import Model
from unfit.workspace.requests import forgotten_before
from unfit.workspace.retention import LABEL
from unfit.workspace.session import Session

T = TypeVar("T")
log = logging.getLogger("unfit")
_ATTEMPTS = 3  # at an audit in which people are forgotten
_ASKED = ("threshold",)  # asked for, not found
_OF_DELETED = (
    *(f.name for f in fields(Audit) if f.name.startswith("deleted_")),
    "acc_dis",
    "acc_dis_spread",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """An audit, with the version it was made of and what is known of the deleted rows."""

    audit: Audit
    version: int
    method: str
    sigma: float
    deleted_from: str  # "the audit window", a file's name, or "" where there are none
    n_available: int
    id: int | None = None  # in the records
    constants: tuple[str, ...] = ()  # columns whose constants are not a fit on what remains

    @property
    def outcome(self) -> Outcome:
        """What the weights show, unless the constants that encode the rows remember somebody."""
        return "not forgotten" if self.constants else self.audit.outcome

    @property
    def passed(self) -> bool | None:
        """Whether everybody is forgotten; None if the audit cannot tell."""
        return {"forgotten": True, "not forgotten": False, "cannot tell": None}[self.outcome]

    @property
    def verdict(self) -> str:
        """The outcome and its reason."""
        if self.constants:
            return constants_verdict(self.constants)
        return self.audit.verdict

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Report":
        """From a dictionary that `as_dict` made, as the records keep it."""
        others = [f.name for f in fields(cls) if f.name not in ("audit", "id", "constants")]
        return cls(
            audit=Audit.of(content),
            constants=tuple(content.get("constants", ())),
            **{name: content[name] for name in others},
        )

    def recorded(self, min_rows: int) -> "Report":
        """The part that is kept for good. Nobody's values may be computed from it.

        Figures are rounded to three digits, those of an attack to two. Those of the deleted rows
        are left out if fewer than min_rows were available: the log-loss of one row is what the
        model says of that person.
        """
        found: dict[str, Any] = {
            f.name: _rounded(value)
            for f in fields(Audit)
            if isinstance(value := getattr(self.audit, f.name), float) and f.name not in _ASKED
        }
        found["disparities"] = tuple(_rounded(v) for v in self.audit.disparities)
        if self.n_available < min_rows:
            found |= dict.fromkeys(_OF_DELETED) | {"disparities": ()}
        audit, made = replace(self.audit, **found), self.audit.attack
        return replace(self, audit=audit if made is None else audit.with_attack(made.rounded()))

    @property
    def too_few(self) -> bool:
        """Whether the figures of deleted rows are left out because too few were available."""
        return self.n_available > 0 and self.audit.deleted_probabilities_differ is None

    def as_dict(self) -> dict[str, Any]:
        return self.audit.to_dict() | {
            "version": self.version,
            "method": self.method,
            "sigma": self.sigma,
            "deleted_from": self.deleted_from,
            "n_available": self.n_available,
            "passed": self.passed,
            "outcome": self.outcome,
            "verdict": self.verdict,
            "constants": list(self.constants),
        }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that an audit looks at, copied: erasures go on while it is weighed."""

    version: Version
    method: Method
    name: str
    state: State
    data: Engine
    test: Rows
    deleted: Rows
    deleted_from: str
    n_deleted: int
    constants: tuple[str, ...] = ()  # see workspace.constants.differing
    claim: Claim | None = None  # what the version was published under

    def weigh(
        self,
        threshold: float,
        draws: int | None,
        random_state: int | None,
        progress: ProgressCallback | None,
        effort: Effort | None = None,
    ) -> Report:
        """Retrain independently and compare; with an effort, attack as well."""
        if progress is not None:
            progress("retraining independently", 0, 0)
        asked = Question(
            method=self.method,
            state=self.state,
            data=self.data,
            test=self.test,
            deleted=self.deleted,
            n_deleted=self.n_deleted,
        )
        rng = np.random.default_rng(random_state)
        made = compare(self._as_released(asked), threshold=threshold, draws=draws, rng=rng)
        if effort is not None:
            found = attack(asked, self.claim, effort=effort, rng=rng, progress=progress)
            made = made.with_attack(found)
        n = len(self.deleted)
        return Report(
            audit=made,
            version=self.version.number,
            method=self.name,
            sigma=self.claim.promise.noise if self.claim else self.method.settings.sigma,
            deleted_from=self.deleted_from if n else "",
            n_available=n,
            constants=self.constants,
        )

    def _as_released(self, asked: Question) -> Question:
        """A certified version is released as RETRAIN releases: the centre, and plain noise."""
        if self.claim is None:
            return asked
        noise, state = self.claim.promise.noise, asked.state
        settings = asked.method.settings.without_options(solver="auto", sigma=noise)
        method = METHODS["retrain"](settings)
        centred = State(method.name, state.weights, state.n, kept_centre=state.centre)
        return replace(asked, method=method, state=centred)


class Outdated(Unavailable):
    """Rows were forgotten, or moved, that an audit was reading where they lie."""

    def __init__(self) -> None:
        super().__init__(
            "another version came while the audit read the rows of the one before it; run it again"
        )


def persistently(make: Callable[[], T]) -> T:
    """What make() returns; again where it was outdated, but not for ever."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return make()
        except Outdated:
            log.info("another version has come, so the audit begins again")
    return make()


def gather(session: Session, deleted: Path | None) -> Evidence:
    """Copy what is needed; the writer's lock is held. deleted: the auditor's own file of rows."""
    model, config = session.open_model(), session.config
    if deleted is not None:
        rows, origin = _from_file(deleted, model, config, session.store), deleted.name
    else:
        rows, origin = _from_window(session.layout.retained, model), "the audit window"
    return Evidence(
        version=session.require_version(),
        method=model.method,
        name=model.card.method,
        state=model.state,
        data=model.data.copied(),
        test=model.test_rows().take(model.test_positions(np.empty(0, np.int64))),
        deleted=rows,
        deleted_from=origin,
        n_deleted=sum(v.deleted for v in session.store.versions.find()),
        constants=_differing(model),
        claim=_claim_of(model),
    )


def _claim_of(model: Model) -> Claim | None:
    if model.releases is None:
        return None
    return Claim(model.releases.certifier.promise, model.releases.certifier.release)


def effort_of(splits: int | None, targets: int | None) -> Effort:
    """How much an attack tries; None: as much as by default."""
    given = {"splits": splits, "targets": targets}
    size = Size(**{name: value for name, value in given.items() if value is not None})
    return Effort(size=size)


def check_request(threshold: float, draws: int | None) -> None:
    if not threshold >= 0:
        raise BadInput(f"the threshold must be >= 0, got {threshold}")
    if draws is not None and draws < 1:
        raise BadInput(f"draws must be at least 1, got {draws}")


def _from_file(path: Path, model: Model, config: Config, store: Store) -> Rows:
    roles = config.the_roles()
    source = open_source(config.source.beside(path))
    if roles.label not in source.columns():
        raise BadInput(f"{path.name} has no column {roles.label!r}: an audit needs the labels")
    _check_gone(source, model, roles, store)
    X, texts = _encoded(source.blocks(), model, roles.label, path.name, source.columns())
    if not texts:
        raise BadInput(f"{path.name} has no rows")
    labelled = np.array([text is not None for text in texts])
    if not labelled.all() and not roles.drop_missing:
        raise BadInput(
            f"{path.name}: row {int(np.argmin(labelled))} has no {roles.label!r}: an audit needs "
            "the labels"
        )
    classes = [roles.class_of(text) for text in texts if text is not None]
    return _rows(X[labelled], classes, model)


def _check_gone(source: Source, model: Model, roles: Roles, store: Store) -> None:
    """Refuse rows of a file that were not forgotten here: they say nothing of what is left."""
    columns = source.columns()
    known = [name for name in (roles.row_id, roles.subject) if name is not None]
    if not known:  # rows are named by their numbers, which a file of some rows does not have
        return
    name = next((one for one in known if one in columns), None)
    if name is None:
        raise BadInput(
            f"{source.name} has no column {' or '.join(map(repr, known))}; an audit needs it to "
            "check that these rows were forgotten"
        )
    kind: IdKind = "row" if name == roles.row_id else "subject"
    rows: Counter[str | None] = Counter()
    for batch in source.blocks([name, roles.label]):
        labelled = pc.is_valid(as_text(batch.column(roles.label)))
        rows.update(as_text(batch.column(name)).filter(labelled).to_pylist())
    there = sum(n for text, n in rows.items() if text and _remembered(model, kind, text))
    if there:
        rows_of = "row" if there == 1 else "rows"
        raise BadInput(
            f"{source.name} holds {there:,} {rows_of} of people who are still remembered; leave "
            "them out"
        )
    gone = forgotten_before(store, [(kind, text) for text in rows if text])
    strange = sum(n for text, n in rows.items() if text is None or (kind, text) not in gone)
    if strange:
        raise BadInput(
            f"{source.name} holds {strange:,} rows whose {name!r} is not that of anybody forgotten "
            "here; leave them out"
        )


def _remembered(model: Model, kind: IdKind, text: str) -> bool:
    if kind == "row":
        return model.dataset.row(text) is not None
    rows = model.dataset.subject_rows(text)
    return rows is not None and bool(model.live[rows].any())


def _from_window(folder: Path, model: Model) -> Rows:
    parts, texts = [], []
    for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
        try:
            source = open_source(Location(path=path))
            X, labels = _encoded(source.blocks(), model, LABEL, path.name, source.columns())
        except BadInput:
            if path.exists():
                raise
            continue  # its window is over, and it was removed just now
        parts.append(X)
        texts += labels
    return _rows(model.card.encoding.stacked(parts), texts, model)


def _differing(model: Model) -> tuple[str, ...]:
    """What was fitted to the rows and would be other on those that remain."""
    columns = differing(model.card.encoding, model.dataset, model.live)
    unbalanced = model.balance_without(np.empty(0, np.int64)) is not None
    return (*columns, CLASS_WEIGHTS) if unbalanced else columns


def _encoded(
    batches: Iterator[pa.RecordBatch], model: Model, label: str, name: str, columns: list[str]
) -> tuple[EncodedRows, list[str]]:
    encoding = model.card.encoding
    reader = Reader.of(encoding, strict=False)
    reader.require(columns, name)
    parts, texts, n = [], [], 0
    for batch in batches:
        raw = reader.read(batch, n, name)
        parts.append(encoding.encode(raw, encoding.own_slots()))
        texts += as_text(batch.column(label)).to_pylist()
        n += batch.num_rows
    return encoding.stacked(parts), texts


def _rows(X: EncodedRows, texts: list[str], model: Model) -> Rows:
    place = {name: i for i, name in enumerate(model.card.classes)}
    codes = np.array([place.get(text, -1) for text in texts], np.int32)
    return model.card.training_rows(X, codes)
