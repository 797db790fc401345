"""Erasures, and what is known of a person. No answer contains the id of a person, except spellings
close to an id that matched nobody, for callers who may erase."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from unfit.service.api.schemas.base import Id, StrictInput, examples
from unfit.service.api.schemas.versions import DecisionOut
from unfit.service.usecases.lookup import NearSpellings, Person
from unfit.store.records import Decision, Matched, Request, RequestState


class ErasureIn(StrictInput):
    """Whom to forget: subjects with all their rows, or single rows."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subjects": ["C-1042", "C-77"]}, {"rows": [17]}]}
    )
    subjects: list[Id] = Field([], max_length=10_000)
    rows: list[Id] = Field([], max_length=10_000)


class ItemOut(BaseModel):
    kind: Literal["subject", "row"]
    outcome: Literal["forgotten", "repeated", "unknown"] | None = Field(
        description="unknown: nobody here has or had this id. null while the erasure is pending."
    )
    rows: int | None


class NearOut(BaseModel):
    """An id that matches nobody, and similar spellings that exist."""

    kind: Literal["subject", "row"]
    asked: str
    spellings: list[str] = Field(
        description="They differ from the id only in case, spaces, zeros or the like."
    )
    forgotten_as: str | None = Field(
        None, description="A similar spelling that was forgotten before."
    )

    @classmethod
    def of(cls, near: NearSpellings) -> "NearOut":
        return cls(**asdict(near))


class ErasureOut(BaseModel):
    model_config = examples(
        {
            "id": 90,
            "key": "3f1c9a52",
            "state": "applied",
            "in_force": True,
            "submitted_at": "2030-01-02T03:04:05.120Z",
            "applied_at": "2030-01-02T03:04:05.310Z",
            "cancelled_at": None,
            "version": 85,
            "matched": "all",
            "ids": 1,
            "forgotten": 1,
            "repeated": 0,
            "unknown": 0,
            "rows": 3,
            "purged": True,
            "kept_for_audit_until": None,
            "items": [{"kind": "subject", "outcome": "forgotten", "rows": 3}],
            "decision": None,
            "near": None,
        }
    )
    id: int
    key: str = Field(description="The Idempotency-Key it was submitted with.")
    state: RequestState = Field(
        description="unmatched: its ids matched nobody, so nobody was forgotten."
    )
    in_force: bool = Field(
        description="The people it matched are no longer in the active model. False if it matched "
        "nobody."
    )
    matched: Matched | None = Field(
        description="all: every id matched somebody; some: other ids matched nobody; earlier: all "
        "had been forgotten before; none. null until the erasure is settled."
    )
    submitted_at: datetime
    applied_at: datetime | None
    cancelled_at: datetime | None
    version: int | None = Field(description="The version that forgot them.")
    ids: int = Field(description="Number of ids it names; 0 once it is cancelled.")
    forgotten: int
    repeated: int = Field(description="Ids named twice, or forgotten before.")
    unknown: int = Field(description="Ids that matched nobody.")
    rows: int = Field(description="Rows forgotten with it.")
    purged: bool | None = Field(
        description="No bytes of the people it names are left, neither in use nor for audits. "
        "null: it matched nobody, or was cancelled."
    )
    kept_for_audit_until: datetime | None = Field(
        description="Its deleted rows, without ids, are kept until then; null: none are kept."
    )
    items: list[ItemOut] | None = Field(
        None, description="Included only when a single erasure is read."
    )
    decision: DecisionOut | None = None
    near: list[NearOut] | None = Field(
        None,
        description="Only in the answer to its submission: those of its ids that currently match "
        "nobody, with similar spellings that exist.",
    )

    @classmethod
    def of(
        cls,
        request: Request,
        decision: Decision | None = None,
        *,
        with_items: bool = False,
        near: Sequence[NearSpellings] | None = None,
    ) -> "ErasureOut":
        items = [ItemOut(kind=i.kind, outcome=i.outcome, rows=i.rows) for i in request.items]
        return cls(
            id=request.id,
            key=request.key,
            state=request.state,
            in_force=request.state == "applied",
            matched=request.matched,
            submitted_at=request.submitted_at,
            applied_at=request.applied_at,
            cancelled_at=request.cancelled_at,
            version=None if request.state == "unmatched" else request.version,
            **asdict(request.tally),
            purged=request.purged,
            kept_for_audit_until=request.kept_until,
            items=items if with_items else None,
            decision=None if decision is None else DecisionOut.of(decision),
            near=None if near is None else [NearOut.of(one) for one in near],
        )


class ErasuresOut(BaseModel):
    items: list[ErasureOut]
    next: int | None = Field(description="Pass it as `before` to get the next page.")


class LookupIn(StrictInput):
    """Whom to look up. The id is in the body so that no log of addresses contains it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"subject": "C-1042"}]})
    subject: Id


class LookupOut(BaseModel):
    state: Literal["remembered", "waiting", "forgotten", "unknown"]
    rows: int
    purged: bool | None = Field(
        description="For a forgotten person: whether none of their bytes are left; otherwise null."
    )
    kept_for_audit_until: datetime | None = Field(
        description="Deleted rows, without ids, that may be theirs are kept until then."
    )
    erasures: list[ErasureOut]
    near: list[str] = Field([], description="For an unknown id: similar spellings that exist.")

    @classmethod
    def of(cls, person: Person) -> "LookupOut":
        return cls(
            state=person.state,
            rows=person.rows,
            purged=person.purged,
            kept_for_audit_until=person.kept_until,
            erasures=[ErasureOut.of(request) for request in person.erasures],
            near=list(person.near),
        )
