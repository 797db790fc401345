"""The tables. What must never happen cannot be written to them.

- one active version per model: a partial unique index
- a row is forgotten once: a primary key
- a request key is used once, a version number is given once: unique constraints
- a place in the log of certificates is taken once: a primary key
- a request is pending, applied, unmatched (it named nobody) or cancelled, never half: a check
"""

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BigInteger = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts up INTEGER only


class Moment(sa.TypeDecorator[datetime]):
    """A time, read as UTC: SQLite keeps no time zone, PostgreSQL answers in the session's."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: object) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Json(sa.TypeDecorator[dict[str, Any]]):
    """A JSON object, kept as text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> str | None:
        return None if value is None else json.dumps(dict(value), sort_keys=True)

    def process_result_value(self, value: str | None, dialect: object) -> dict[str, Any] | None:
        return None if value is None else json.loads(value)


models = sa.Table(
    "models",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("key", sa.Text, nullable=False, unique=True),  # the workspace's id
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("list_position", sa.BigInteger, nullable=False),  # bytes, as earlier releases had it
    sa.Column("list_known", sa.Text),  # of the deletion list: its id, lines, and their digest
    sa.Column("key_fingerprint", sa.Text),  # of the key that digests here are made with
    sa.Column("purge_due", sa.Boolean, nullable=False),  # something erased may still lie about
    sa.Column("purged_at", Moment),  # whatever was forgotten before has left the disk
    sa.Column("changes", sa.BigInteger, nullable=False),  # a random number, new at every commit
    sa.Column("access", sa.BigInteger, nullable=False, server_default=sa.text("0")),  # of tokens
    sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0")),  # of the lock
    sa.CheckConstraint("list_position >= 0", name="list_position"),
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("activated_at", Moment, nullable=False),
    sa.Column("superseded_at", Moment),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("generation", sa.Text),
    sa.Column("model_sha", sa.Text),
    sa.Column("card_sha", sa.Text),
    sa.Column("statistics_sha", sa.Text),
    sa.Column("retained_until", Moment),  # deleted rows are kept for the audit until then
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("subjects", sa.BigInteger, nullable=False),
    sa.Column("deleted", sa.BigInteger, nullable=False),  # rows that left with this version
    sa.Column("accuracy", sa.Double),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("baseline", Json, nullable=False),  # see lifecycle.pipeline.Baseline
    sa.Column("times", Json),  # see store.records.Times
    sa.Column("held_out", Json),  # see store.records.HeldOut
    sa.UniqueConstraint("model_id", "number"),
    sa.CheckConstraint("kind IN ('trained', 'updated', 'retrained', 'withdrawn')", name="kind"),
    sa.CheckConstraint("state IN ('active', 'superseded')", name="state"),
    sa.CheckConstraint(
        "(state = 'superseded') = (superseded_at IS NOT NULL)", name="superseded_at"
    ),
)
one_active = sa.Index(
    "uq_versions_active",
    versions.c.model_id,
    unique=True,
    sqlite_where=versions.c.state == "active",
    postgresql_where=versions.c.state == "active",
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # of what was asked, keyed
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("submitted_at", Moment, nullable=False),
    sa.Column("submitted_by", sa.Text),  # the public half of a token, where one was used
    sa.Column("applied_at", Moment),
    sa.Column("cancelled_at", Moment),
    sa.Column("version_id", sa.ForeignKey("versions.id")),
    sa.UniqueConstraint("model_id", "key"),
    sa.CheckConstraint("state IN ('pending', 'applied', 'unmatched', 'cancelled')", name="state"),
    sa.CheckConstraint("(state = 'cancelled') = (cancelled_at IS NOT NULL)", name="cancelled_at"),
    sa.CheckConstraint(
        "(state IN ('applied', 'unmatched')) = (applied_at IS NOT NULL)", name="applied_at"
    ),
    sa.Index("ix_requests_state", "model_id", "state"),
)

items = sa.Table(
    "request_items",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("request_id", sa.ForeignKey("requests.id"), nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("value", sa.Text),  # the id; gone when it is purged
    sa.Column("outcome", sa.Text),
    sa.Column("rows", sa.BigInteger),
    sa.Column("digest", sa.Text, index=True),  # finds the requests about an id that is purged
    sa.CheckConstraint("kind IN ('subject', 'row')", name="kind"),
    sa.CheckConstraint(
        "outcome IS NULL OR outcome IN ('forgotten', 'repeated', 'unknown')", name="outcome"
    ),
    sa.CheckConstraint("value IS NOT NULL OR outcome IS NOT NULL", name="value"),
)

forgotten = sa.Table(
    "forgotten",
    metadata,
    sa.Column("model_id", sa.ForeignKey("models.id"), primary_key=True),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version_id", sa.ForeignKey("versions.id"), nullable=False),
    sa.Column("erased", sa.Boolean, nullable=False),
    sa.Index("ix_forgotten_erased", "model_id", "erased"),
)

forgotten_ids = sa.Table(
    "forgotten_ids",
    metadata,
    sa.Column("model_id", sa.ForeignKey("models.id"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, primary_key=True),  # tells a repeated id from an unknown
    sa.CheckConstraint("kind IN ('subject', 'row')", name="kind"),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("version_id", sa.ForeignKey("versions.id"), nullable=False, unique=True),
    sa.Column("at", Moment, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("inputs", Json, nullable=False),  # see lifecycle.policy.Facts
    sa.Column("estimate", sa.Double),
    sa.Column("threshold", sa.Double),
    sa.CheckConstraint("action IN ('open', 'update', 'retrain', 'withdraw')", name="action"),
)

audits = sa.Table(
    "audits",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("version_id", sa.ForeignKey("versions.id"), nullable=False),
    sa.Column("at", Moment, nullable=False),
    sa.Column("passed", sa.Boolean),
    sa.Column("report", Json, nullable=False),  # see workspace.audit.Report
)

certificates = sa.Table(
    "certificates",
    metadata,
    sa.Column("model_id", sa.ForeignKey("models.id"), primary_key=True),
    sa.Column("number", BigInteger, primary_key=True, autoincrement=False),  # its place in the log
    sa.Column("version_id", sa.ForeignKey("versions.id"), nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", Moment, nullable=False),
    sa.Column("statement", sa.Text, nullable=False),  # what is signed
    sa.Column("leaf", sa.Text),  # of the log, by the envelope
    sa.Column("frontier", sa.Text),  # of the log up to here: its root follows from it
    sa.Column("mu_squares", sa.Double, nullable=False),  # summed over releases after a deletion
    sa.Column("releases", BigInteger, nullable=False),  # so many
    sa.Column("deleted", BigInteger, nullable=False),  # training rows, since the first training
    sa.Column("annex", sa.Text),  # for auditors alone: it depends on the rows
    sa.Column("envelope", sa.Text),  # the statement, signed; empty while there is no key
    sa.Column("checkpoint", sa.Text),  # of the log up to here, signed
    sa.CheckConstraint(
        "kind IN ('trained', 'updated', 'retrained', 'withdrawn', 'kept')", name="kind"
    ),
    sa.CheckConstraint("number >= 0", name="number"),
)

certificate_salts = sa.Table(
    "certificate_salts",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("number", BigInteger, nullable=False),  # of the certificate
    sa.Column("request_id", sa.ForeignKey("requests.id"), nullable=False, index=True),
    sa.Column("commitment", sa.Text, nullable=False),
    sa.Column("salt", sa.Text, nullable=False),  # gone when it was handed out
    sa.Column("made_at", Moment, nullable=False),
)

signing_keys = sa.Table(
    "signing_keys",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("public", sa.Text, nullable=False),
    sa.Column("since", Moment, nullable=False),
    sa.UniqueConstraint("model_id", "public"),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("model_id", sa.ForeignKey("models.id"), primary_key=True),
    sa.Column("holder", sa.Text),  # the worker that applies requests
    sa.Column("beat", sa.BigInteger, nullable=False),  # counts up while it lives
    sa.Column("since", Moment),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("options", Json, nullable=False),
    sa.Column("submitted_at", Moment, nullable=False),
    sa.Column("submitted_by", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("started_at", Moment),
    sa.Column("finished_at", Moment),
    sa.Column("stage", sa.Text),
    sa.Column("done", sa.BigInteger),
    sa.Column("total", sa.BigInteger),
    sa.Column("error", sa.Text),
    sa.Column("audit_id", sa.ForeignKey("audits.id")),
    sa.Column("version", sa.Integer),
    sa.CheckConstraint("kind IN ('audit', 'retrain')", name="kind"),
    sa.CheckConstraint("state IN ('pending', 'running', 'done', 'failed')", name="state"),
    sa.Index("ix_jobs_state", "model_id", "state"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("model_id", sa.ForeignKey("models.id"), nullable=False),
    sa.Column("public", sa.Text, nullable=False, unique=True),  # names the token in logs
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),  # of the secret half, which is random
    sa.Column("roles", sa.Text, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("revoked_at", Moment),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("token_id", sa.ForeignKey("tokens.id"), nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("expires_at", Moment, nullable=False),
)
