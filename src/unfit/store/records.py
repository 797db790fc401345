"""The records that the store takes and returns: frozen, and built by keyword.

A record that is read from the database is built in one place, its `from_row`. Each field is the
column of the same name, except for those that `from_row` names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from sqlalchemy import Row

IdKind = Literal["subject", "row"]
ItemOutcome = Literal["forgotten", "repeated", "unknown"]
RequestState = Literal["pending", "applied", "unmatched", "cancelled"]
Matched = Literal["all", "some", "earlier", "none"]
JobKind = Literal["audit", "retrain"]


def _columns(record: type[Any], row: "Row[Any]", **others: Any) -> dict[str, Any]:
    """The fields of a record: the columns of the same names, and those given."""
    found = row._mapping
    return {f.name: found[f.name] for f in fields(record) if f.name in found} | others


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """The model's row: what of the deletion list is applied, the state of the purge."""

    id: int
    key: str
    list_position: int
    list_known: str | None
    key_fingerprint: str | None
    purge_due: bool
    purged_at: datetime | None
    changes: int
    access: int = 0

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        return cls(**_columns(cls, row))


@dataclass(frozen=True, kw_only=True)
class Times:
    """Where the seconds of a version went; see unfit.stopwatch for where they start and end.

    phases: seconds by name; they are part of the version's seconds. cold: a kernel was compiled or
    loaded while the clock ran. kernels: seconds of loading kernels while the clock stood still.
    purge: seconds of the purge after the commit, which several versions may share; None while it
    is due. rows_read: how many rows were read for sums over those that stay, where that is
    counted. steps: how many the unlearning took.
    """

    phases: Mapping[str, float]
    cold: bool
    kernels: float = 0.0
    purge: float | None = None
    rows_read: int | None = None
    steps: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What else is known of a version on its held-out people, besides its accuracy.

    majority: the accuracy of always naming the most frequent class. initial_accuracy: that of the
    model as it was last trained, on the people held out now. log_loss_change: since that training,
    the sum of the changes by each erasure, measured on the people held out at its time. agreement:
    the share of held-out rows that are certain to get the label a retraining gives them; known with
    certificates alone.
    """

    majority: float | None = None
    log_loss: float | None = None
    auc: float | None = None
    initial_accuracy: float | None = None
    log_loss_change: float | None = None
    agreement: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class NewVersion:
    """A version that is about to become the active one."""

    kind: Literal["trained", "updated", "retrained", "withdrawn"]
    method: str
    generation: str | None
    model_sha: str | None = None
    card_sha: str | None = None
    statistics_sha: str | None = None
    retained_until: datetime | None = None
    rows: int
    subjects: int
    deleted: int
    accuracy: float | None = None
    seconds: float  # from the work being taken up to the commit that puts it in force
    baseline: Mapping[str, Any]
    times: Times | None = None  # unknown for old records
    held_out: HeldOut | None = None  # unknown for old records

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        return {f.name: column_value(getattr(self, f.name)) for f in fields(NewVersion)}


@dataclass(frozen=True, kw_only=True)
class Version(NewVersion):
    """A version as it is kept."""

    id: int
    number: int
    state: Literal["active", "superseded"]
    activated_at: datetime
    superseded_at: datetime | None = None

    @classmethod
    def activated(cls, new: NewVersion, *, id: int, number: int, now: datetime) -> Self:
        """A version that has just become the active one."""
        known = {f.name: getattr(new, f.name) for f in fields(NewVersion)}
        return cls(**known, id=id, number=number, state="active", activated_at=now)

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        times = None if row.times is None else Times(**row.times)
        held_out = None if row.held_out is None else HeldOut(**row.held_out)
        return cls(**_columns(cls, row, times=times, held_out=held_out))


def column_value(value: Any) -> Any:
    """What a column holds of a field: a record inside a record is kept as JSON."""
    return value.as_dict() if isinstance(value, Times | HeldOut) else value


@dataclass(frozen=True, kw_only=True)
class Item:
    """One id of a request; value is None once it is purged."""

    id: int
    kind: IdKind
    value: str | None
    outcome: ItemOutcome | None = None
    rows: int | None = None

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:  # spelled out, because there may be thousands
        return cls(id=row.id, kind=row.kind, value=row.value, outcome=row.outcome, rows=row.rows)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many ids a request names, what became of them, and how many rows went."""

    ids: int = 0
    forgotten: int = 0
    repeated: int = 0
    unknown: int = 0
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Request:
    """An erasure request; unmatched: it was looked at, and nobody had any of its ids."""

    id: int
    key: str
    state: RequestState
    submitted_at: datetime
    applied_at: datetime | None
    version: int | None  # the number of the version that forgot
    items: Sequence[Item] = ()
    cancelled_at: datetime | None = None
    submitted_by: str | None = None
    tally: Tally = Tally()
    retained_until: datetime | None = None  # of the version: its deleted rows are kept for audits
    erased: bool = False  # it is settled, and a purge was done since

    @classmethod
    def from_row(cls, row: "Row[Any]", items: Sequence[Item], tally: Tally) -> Self:
        """row: of the request, with columns of its version and of its model."""
        purged = row.applied_at is not None and (
            not row.purge_due or (row.purged_at is not None and row.applied_at <= row.purged_at)
        )
        return cls(**_columns(cls, row, items=items, tally=tally, erased=purged))

    @property
    def kept_until(self) -> datetime | None:
        """How long rows that went with it are kept for audits; None: not, or not any more."""
        return self.retained_until if self.state == "applied" and self.tally.rows else None

    @property
    def purged(self) -> bool | None:
        """Whether no byte of those it names is left, neither in use nor kept for audits.

        None where it forgot nobody: it matched nobody, or was cancelled.
        """
        if self.state in ("unmatched", "cancelled"):
            return None
        return self.erased and self.kept_until is None

    @property
    def matched(self) -> Matched | None:
        """Whether its ids were anybody's; earlier: all were forgotten before. None: unsettled."""
        if self.state not in ("applied", "unmatched"):
            return None
        if self.state == "unmatched":
            return "none"
        if self.tally.unknown:
            return "some"
        return "all" if self.tally.forgotten else "earlier"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Why a version became the active one, in a sentence, with the facts it rests on."""

    version: int
    at: datetime
    action: Literal["open", "update", "retrain", "withdraw"]
    reason: str
    inputs: Mapping[str, Any]
    estimate: float | None
    threshold: float | None

    @property
    def measured(self) -> bool:
        """Whether the disparity is measured, as of a certified model, and not estimated."""
        return self.inputs.get("disparity") is not None

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        """row: of the decision, with the number of its version."""
        return cls(**_columns(cls, row, version=row.number))

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns; the version is named by its id there."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "version"}


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    id: int
    version: int
    at: datetime
    passed: bool | None
    report: Mapping[str, Any]

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        """row: of the audit, with the number of its version."""
        return cls(**_columns(cls, row, version=row.number))


@dataclass(frozen=True, kw_only=True)
class Salt:
    """What opens a commitment to an id of a request; it is handed out once, and then gone."""

    request_id: int
    commitment: str
    salt: str


@dataclass(frozen=True, kw_only=True)
class NewCertificate:
    """A certificate that goes into the log with its version.

    number: its place, from 0. mu_squares, releases: summed over all releases so far. annex: for
    auditors alone. envelope: the statement, sealed; leaf and frontier, hexadecimal, follow from it
    (certify.log), and the checkpoint is signed. These four are None, and the statement does not
    name the certificate before it, until there is a key to sign with.
    """

    number: int
    kind: Literal["trained", "updated", "retrained", "withdrawn", "kept"]
    statement: str
    mu_squares: float
    releases: int
    deleted: int
    annex: str | None = None
    envelope: str | None = None
    leaf: str | None = None
    frontier: str | None = None
    checkpoint: str | None = None
    salts: Sequence[Salt] = ()

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns; salts have a table of their own."""
        return {f.name: getattr(self, f.name) for f in fields(NewCertificate) if f.name != "salts"}


@dataclass(frozen=True, kw_only=True)
class CertificateRecord(NewCertificate):
    """A certificate as it is kept, with the number of its version."""

    version: int
    at: datetime

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        """row: of the certificate, with the number of its version."""
        return cls(**_columns(cls, row, version=row.version_number))


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What one step did to requests: outcomes by item, rows gone, ids gone.

    list_known: how far the deletion list is applied.
    changes_to_active: new columns of the active version, where it stays.
    certificate: of the version that is active after it, where certificates are made.
    """

    requests: Sequence[int] = ()
    outcomes: Sequence[tuple[int, ItemOutcome, int]] = ()  # item, outcome, rows
    rows: Sequence[int] = ()
    digests: Sequence[tuple[IdKind, str]] = ()
    list_known: str | None = None
    changes_to_active: Mapping[str, Any] = field(default_factory=dict)
    certificate: NewCertificate | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """Long work that was asked for: an audit or a retraining."""

    id: int
    kind: JobKind
    state: Literal["pending", "running", "done", "failed"]
    options: Mapping[str, Any]
    submitted_at: datetime
    submitted_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    stage: str | None
    done: int | None
    total: int | None
    error: str | None
    audit_id: int | None
    version: int | None

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        return cls(**_columns(cls, row))


@dataclass(frozen=True, kw_only=True)
class Token:
    """Who may do what; the secret half is nowhere."""

    id: int
    public: str
    name: str
    roles: frozenset[str]
    created_at: datetime
    revoked_at: datetime | None = None

    @classmethod
    def from_row(cls, row: "Row[Any]") -> Self:
        return cls(**_columns(cls, row, roles=frozenset(row.roles.split())))
