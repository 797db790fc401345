"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "models",
        sa.Column("id", BIG, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("list_position", sa.BigInteger, nullable=False),
        sa.Column("purge_due", sa.Boolean, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("key", name="uq_models_key"),
        sa.CheckConstraint("list_position >= 0", name=op.f("ck_models_list_position")),
    )
    op.create_table(
        "versions",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
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
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_versions_model_id"),
        sa.UniqueConstraint("model_id", "number", name="uq_versions_model_id_number"),
        sa.CheckConstraint(
            "kind IN ('trained', 'updated', 'retrained', 'withdrawn')",
            name=op.f("ck_versions_kind"),
        ),
        sa.CheckConstraint("state IN ('employed', 'superseded')", name=op.f("ck_versions_state")),
        sa.CheckConstraint(
            "(state = 'superseded') = (superseded_at IS NOT NULL)",
            name=op.f("ck_versions_superseded_at"),
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
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("submitted_at", MOMENT, nullable=False),
        sa.Column("applied_at", MOMENT),
        sa.Column("version_id", BIG),
        sa.PrimaryKeyConstraint("id", name="pk_requests"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_requests_model_id"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_requests_version_id"),
        sa.UniqueConstraint("model_id", "key", name="uq_requests_model_id_key"),
        sa.CheckConstraint("state IN ('pending', 'applied')", name=op.f("ck_requests_state")),
        sa.CheckConstraint(
            "(state = 'applied') = (applied_at IS NOT NULL)", name=op.f("ck_requests_applied_at")
        ),
    )
    op.create_index("ix_requests_state", "requests", ["model_id", "state"])
    op.create_table(
        "request_items",
        sa.Column("id", BIG, nullable=False),
        sa.Column("request_id", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_request_items"),
        sa.ForeignKeyConstraint(
            ["request_id"], ["requests.id"], name="fk_request_items_request_id"
        ),
        sa.CheckConstraint("kind IN ('subject', 'row')", name=op.f("ck_request_items_kind")),
        sa.CheckConstraint(
            "outcome IS NULL OR outcome IN ('forgotten', 'repeated', 'unknown')",
            name=op.f("ck_request_items_outcome"),
        ),
        sa.CheckConstraint(
            "value IS NOT NULL OR outcome IS NOT NULL", name=op.f("ck_request_items_value")
        ),
    )
    op.create_index("ix_request_items_request_id", "request_items", ["request_id"])
    if op.get_context().dialect.name == "postgresql":  # which would keep ids in its statistics
        op.execute("ALTER TABLE request_items ALTER COLUMN value SET STATISTICS 0")
    op.create_table(
        "forgotten",
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("row", sa.BigInteger, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("erased", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("model_id", "row", name="pk_forgotten"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_forgotten_model_id"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_forgotten_version_id"),
    )
    op.create_index("ix_forgotten_erased", "forgotten", ["model_id", "erased"])
    op.create_table(
        "forgotten_ids",
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("model_id", "kind", "digest", name="pk_forgotten_ids"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_forgotten_ids_model_id"),
        sa.CheckConstraint("kind IN ('subject', 'row')", name=op.f("ck_forgotten_ids_kind")),
    )
    op.create_table(
        "decisions",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("inputs", sa.Text, nullable=False),
        sa.Column("estimate", sa.Double),
        sa.Column("threshold", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_decisions_model_id"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_decisions_version_id"),
        sa.UniqueConstraint("version_id", name="uq_decisions_version_id"),
        sa.CheckConstraint(
            "action IN ('open', 'employ', 'retrain', 'withdraw')", name=op.f("ck_decisions_action")
        ),
    )
    op.create_table(
        "audits",
        sa.Column("id", BIG, nullable=False),
        sa.Column("model_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("passed", sa.Boolean),
        sa.Column("report", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audits"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_audits_model_id"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_audits_version_id"),
    )


def downgrade() -> None:
    for name in (
        "audits",
        "decisions",
        "forgotten_ids",
        "forgotten",
        "request_items",
        "requests",
        "versions",
        "models",
    ):
        op.drop_table(name)
