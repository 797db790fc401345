"""What the service keeps: jobs, tokens, sessions, a lease; requests can be cancelled."""

import sqlalchemy as sa
from alembic import op

from unfit.store.migrations.tables import MOMENT, id_column, reference, set_checks

revision = "0002"
down_revision = "0001"

CHECKS = {
    "state": "state IN ('pending', 'applied', 'cancelled')",
    "applied_at": "(state = 'applied') = (applied_at IS NOT NULL)",
    "cancelled_at": "(state = 'cancelled') = (cancelled_at IS NOT NULL)",
}


def upgrade() -> None:
    op.add_column(
        "models", sa.Column("access", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    op.add_column("requests", sa.Column("cancelled_at", MOMENT))
    op.add_column("requests", sa.Column("submitted_by", sa.Text))
    set_checks("requests", CHECKS)
    op.add_column("request_items", sa.Column("digest", sa.Text))
    op.create_index("ix_request_items_digest", "request_items", ["digest"])
    op.create_table(
        "leases",
        reference("model_id", "models.id", primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("since", MOMENT),
    )
    op.create_table(
        "jobs",
        id_column(),
        reference("model_id", "models.id"),
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
        reference("audit_id", "audits.id", nullable=True),
        sa.Column("version", sa.Integer),
        sa.CheckConstraint("kind IN ('audit', 'retrain')", name="kind"),
        sa.CheckConstraint("state IN ('pending', 'running', 'done', 'failed')", name="state"),
    )
    op.create_index("ix_jobs_state", "jobs", ["model_id", "state"])
    op.create_table(
        "tokens",
        id_column(),
        reference("model_id", "models.id"),
        sa.Column("public", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        reference("token_id", "tokens.id"),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
