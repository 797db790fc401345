"""The first tables."""

import sqlalchemy as sa
from alembic import op

from unfit.store.migrations.tables import MOMENT, id_column, reference

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "models",
        id_column(),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("list_position", sa.BigInteger, nullable=False),
        sa.Column("purge_due", sa.Boolean, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.CheckConstraint("list_position >= 0", name="list_position"),
    )
    op.create_table(
        "versions",
        id_column(),
        reference("model_id", "models.id"),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("employed_at", MOMENT, nullable=False),
        sa.Column("superseded_at", MOMENT),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("generation", sa.Text),
        sa.Column("model_sha", sa.Text),
        sa.Column("card_sha", sa.Text),
        sa.Column("statistics_sha", sa.Text),
        sa.Column("retained_until", MOMENT),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("subjects", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.BigInteger, nullable=False),
        sa.Column("accuracy", sa.Double),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("baseline", sa.Text, nullable=False),
        sa.UniqueConstraint("model_id", "number"),
        sa.CheckConstraint("kind IN ('trained', 'updated', 'retrained', 'withdrawn')", name="kind"),
        sa.CheckConstraint("state IN ('employed', 'superseded')", name="state"),
        sa.CheckConstraint(
            "(state = 'superseded') = (superseded_at IS NOT NULL)", name="superseded_at"
        ),
    )
    op.create_index(
        "uq_versions_employed",
        "versions",
        ["model_id"],
        unique=True,
        sqlite_where=sa.text("state = 'employed'"),
        postgresql_where=sa.text("state = 'employed'"),
    )
    op.create_table(
        "requests",
        id_column(),
        reference("model_id", "models.id"),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("submitted_at", MOMENT, nullable=False),
        sa.Column("applied_at", MOMENT),
        reference("version_id", "versions.id", nullable=True),
        sa.UniqueConstraint("model_id", "key"),
        sa.CheckConstraint("state IN ('pending', 'applied')", name="state"),
        sa.CheckConstraint("(state = 'applied') = (applied_at IS NOT NULL)", name="applied_at"),
    )
    op.create_index("ix_requests_state", "requests", ["model_id", "state"])
    op.create_table(
        "request_items",
        id_column(),
        reference("request_id", "requests.id", index=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.CheckConstraint("kind IN ('subject', 'row')", name="kind"),
        sa.CheckConstraint(
            "outcome IS NULL OR outcome IN ('forgotten', 'repeated', 'unknown')", name="outcome"
        ),
        sa.CheckConstraint("value IS NOT NULL OR outcome IS NOT NULL", name="value"),
    )
    if op.get_context().dialect.name == "postgresql":  # which would keep ids in its statistics
        op.execute("ALTER TABLE request_items ALTER COLUMN value SET STATISTICS 0")
    op.create_table(
        "forgotten",
        reference("model_id", "models.id", primary_key=True),
        sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
        reference("version_id", "versions.id"),
        sa.Column("erased", sa.Boolean, nullable=False),
    )
    op.create_index("ix_forgotten_erased", "forgotten", ["model_id", "erased"])
    op.create_table(
        "forgotten_ids",
        reference("model_id", "models.id", primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.CheckConstraint("kind IN ('subject', 'row')", name="kind"),
    )
    op.create_table(
        "decisions",
        id_column(),
        reference("model_id", "models.id"),
        reference("version_id", "versions.id", unique=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("inputs", sa.Text, nullable=False),
        sa.Column("estimate", sa.Double),
        sa.Column("threshold", sa.Double),
        sa.CheckConstraint("action IN ('open', 'employ', 'retrain', 'withdraw')", name="action"),
    )
    op.create_table(
        "audits",
        id_column(),
        reference("model_id", "models.id"),
        reference("version_id", "versions.id"),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("passed", sa.Boolean),
        sa.Column("report", sa.Text, nullable=False),
    )
