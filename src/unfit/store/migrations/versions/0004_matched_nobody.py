"""A request whose ids nobody had is not applied but unmatched."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
STATES = "state IN ('pending', 'applied', 'unmatched', 'cancelled')"
APPLIED = "(state IN ('applied', 'unmatched')) = (applied_at IS NOT NULL)"
CANCELLED = "(state = 'cancelled') = (cancelled_at IS NOT NULL)"


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        _requests_anew()
    else:
        op.drop_constraint("ck_requests_state", "requests")
        op.drop_constraint("ck_requests_applied_at", "requests")
        op.create_check_constraint(op.f("ck_requests_state"), "requests", STATES)
        op.create_check_constraint(op.f("ck_requests_applied_at"), "requests", APPLIED)
    op.execute(
        "UPDATE requests SET state = 'unmatched' WHERE state = 'applied' AND EXISTS "
        "(SELECT 1 FROM request_items i WHERE i.request_id = requests.id) AND NOT EXISTS "
        "(SELECT 1 FROM request_items i WHERE i.request_id = requests.id "
        "AND (i.outcome IS NULL OR i.outcome <> 'unknown'))"
    )


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
    same = (
        "id, model_id, key, fingerprint, state, submitted_at, submitted_by, applied_at, "
        "cancelled_at, version_id"
    )
    op.execute(f"INSERT INTO requests_new ({same}) SELECT {same} FROM requests")
    op.drop_table("requests")
    op.rename_table("requests_new", "requests")
    op.create_index("ix_requests_state", "requests", ["model_id", "state"])
