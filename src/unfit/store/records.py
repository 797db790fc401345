"""What the repository takes and gives: plain frozen records."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

IdKind = Literal["subject", "row"]
Outcome = Literal["forgotten", "repeated", "unknown"]
State = Literal["pending", "applied", "unmatched", "cancelled"]
Matched = Literal["all", "some", "earlier", "none"]


@dataclass(frozen=True)
class Model:
    id: int
    key: str
    list_position: int
    list_known: str | None
    key_fingerprint: str | None
    purge_due: bool
    purged_at: datetime | None
    changes: int
    access: int = 0


@dataclass(frozen=True, kw_only=True)
class Times:
    """Where the seconds of a version went; see workspace.stopwatch for where they start and end.

    phases: seconds by name, within the version's seconds. cold: a kernel was compiled or loaded
    while the clock ran. kernels: seconds of getting them ready while it stood still. purge: of the
    purge after the commit, which several versions may share; None while it is due. rows_read:
    by sums over the rows that stay, each time they were, where that is counted. steps: the
    unlearning took.
    """

    phases: Mapping[str, float]
    cold: bool
    kernels: float = 0.0
    purge: float | None = None
    rows_read: int | None = None
    steps: int | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, content: str) -> "Times":
        return cls(**json.loads(content))


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What else is known of a version on its held-out people, beside its accuracy.

    majority: the accuracy of always naming the most frequent class. initial_accuracy: of the model
    as it was last trained, on the people held out now. log_loss_change: since that training, the
    sum of what each erasure did on the people held out at its time.
    """

    majority: float | None = None
    log_loss: float | None = None
    auc: float | None = None
    initial_accuracy: float | None = None
    log_loss_change: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, content: str) -> "HeldOut":
        return cls(**json.loads(content))


@dataclass(frozen=True)
class NewVersion:
    """A version about to be employed."""

    kind: Literal["trained", "updated", "retrained", "withdrawn"]
    method: str
    generation: str | None
    model_sha: str | None
    card_sha: str | None
    statistics_sha: str | None
    retained_until: datetime | None
    rows: int
    subjects: int
    deleted: int
    accuracy: float | None
    seconds: float  # from the work being taken up to the commit that puts it in force
    baseline: Mapping[str, Any]
    times: Times | None = field(default=None, kw_only=True)  # not known of old records
    held_out: HeldOut | None = field(default=None, kw_only=True)  # nor this


@dataclass(frozen=True)
class Version(NewVersion):
    """A version as it is kept."""

    id: int
    number: int
    state: Literal["employed", "superseded"]
    employed_at: datetime
    superseded_at: datetime | None


@dataclass(frozen=True)
class Item:
    """One id of a request; value is None once it is purged."""

    id: int
    kind: IdKind
    value: str | None
    outcome: Outcome | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Tally:
    """How many ids a request names, what became of them, and how many rows went."""

    ids: int = 0
    forgotten: int = 0
    repeated: int = 0
    unknown: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Request:
    """An erasure request; unmatched: it was looked at, and nobody had any of its ids."""

    id: int
    key: str
    state: State
    submitted_at: datetime
    applied_at: datetime | None
    version: int | None  # the number of the version that forgot
    items: Sequence[Item] = ()
    cancelled_at: datetime | None = None
    submitted_by: str | None = None
    tally: Tally = Tally()
    retained_until: datetime | None = None  # of the version: its deleted rows are kept for audits
    erased: bool = False  # it is settled, and a purge was done since

    @property
    def kept_until(self) -> datetime | None:
        """How long rows that went with it are kept for audits; None: not, or not any more."""
        return self.retained_until if self.state == "applied" and self.tally.rows else None

    @property
    def purged(self) -> bool | None:
        """Whether no byte of those it names is left, neither in use nor for audits.

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


@dataclass(frozen=True)
class Decision:
    """Why a version was employed, in a sentence, with the facts it rests on."""

    version: int
    at: datetime
    action: Literal["open", "employ", "retrain", "withdraw"]
    reason: str
    inputs: Mapping[str, Any]
    estimate: float | None
    threshold: float | None


@dataclass(frozen=True)
class AuditRecord:
    id: int
    version: int
    at: datetime
    passed: bool | None
    report: Mapping[str, Any]


@dataclass(frozen=True)
class Applied:
    """What one step of the worker did to requests: outcomes by item, rows gone, ids gone.

    list_known: how far the deletion list is known, or what writes the list and says so: it is
    called when nothing can be refused any more, so that nobody is listed whose request is.
    """

    requests: Sequence[int] = ()
    outcomes: Sequence[tuple[int, Outcome, int]] = ()  # item, outcome, rows
    rows: Sequence[int] = ()
    digests: Sequence[tuple[IdKind, str]] = ()
    list_known: str | Callable[[], str] | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)  # new facts of a version that stays


JobKind = Literal["audit", "retrain"]


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Token:
    """Who may do what; the secret half is nowhere."""

    id: int
    public: str
    name: str
    roles: frozenset[str]
    created_at: datetime
    revoked_at: datetime | None
