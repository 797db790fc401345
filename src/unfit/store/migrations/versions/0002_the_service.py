"""What the service keeps: jobs, tokens, sessions, a lease; requests can be cancelled."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
STATES = "state IN ('pending', 'applied', 'cancelled')"
APPLIED = "(state = 'applied') = (applied_at IS NOT NULL)"
CANCELLED = "(state = 'cancelled') = (cancelled_at IS NOT NULL)"


def upgrade() -> None:
    op.add_column(
        "models", sa.Column("access", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    if op.get_context().dialect.name == "sqlite":
        _requests_anew()
    else:
        op.add_column("requests", sa.Column("cancelled_at", MOMENT))
        op.add_column("requests", sa.Column("submitted_by", sa.Text))
        op.drop_constraint("ck_requests_state", "requests")
        op.create_check_constraint(op.f("ck_requests_state"), "requests", STATES)
        op.create_check_constraint(op.f("ck_requests_cancelled_at"), "requests", CANCELLED)
    op.add_column("request_items", sa.Column("digest", sa.Text))
    op.create_index("ix_request_items_digest", "request_items", ["digest"])
    _new_tables()


def _requests_anew() -> None:
    """SQLite changes no constraint: the table is made again, and filled from the old one."""
    op.create_table(
        "requests_new",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("submitted_at", MOMENT, nullable=False),
        sa.Column("submitted_by", sa.Text),
        sa.Column("applied_at", MOMENT),
        sa.Column("cancelled_at", MOMENT),
        sa.Column("version_id", BIG),
        sa.PrimaryKeyConstraint("id", name="pk_requests"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_requests_model_id"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_requests_version_id"),
        sa.UniqueConstraint("model_id", "key", name="uq_requests_model_id_key"),
        sa.CheckConstraint(STATES, name=op.f("ck_requests_state")),
        sa.CheckConstraint(APPLIED, name=op.f("ck_requests_applied_at")),
        sa.CheckConstraint(CANCELLED, name=op.f("ck_requests_cancelled_at")),
    )
    same = "id, model_id, key, fingerprint, state, submitted_at, applied_at, version_id"
    op.execute(f"INSERT INTO requests_new ({same}) SELECT {same} FROM requests")
    op.drop_table("requests")
    op.rename_table("requests_new", "requests")
    op.create_index("ix_requests_state", "requests", ["model_id", "state"])


def _new_tables() -> None:
    op.create_table(
        "leases",
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("since", MOMENT),
        sa.PrimaryKeyConstraint("model_id", name="pk_leases"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_leases_model_id"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("submitted_at", MOMENT, nullable=False),
        sa.Column("submitted_by", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.Column("stage", sa.Text),
        sa.Column("done", sa.BigInteger),
        sa.Column("total", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("audit_id", BIG),
        sa.Column("version", sa.Integer),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_jobs_model_id"),
        sa.ForeignKeyConstraint(["audit_id"], ["audits.id"], name="fk_jobs_audit_id"),
        sa.CheckConstraint("kind IN ('audit', 'retrain')", name=op.f("ck_jobs_kind")),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'done', 'failed')", name=op.f("ck_jobs_state")
        ),
    )
    op.create_index("ix_jobs_state", "jobs", ["model_id", "state"])
    op.create_table(
        "tokens",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("public", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_tokens_model_id"),
        sa.UniqueConstraint("public", name="uq_tokens_public"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("token_id", BIG, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_sessions"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_sessions_token_id"),
    )
