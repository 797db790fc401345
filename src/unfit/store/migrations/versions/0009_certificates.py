"""Certificates in a log, and the salts that open their commitments until they are handed out."""

import sqlalchemy as sa
from alembic import op

from unfit.store.migrations.tables import BIG, MOMENT, id_column, reference

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "certificates",
        reference("model_id", "models.id", primary_key=True),
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        reference("version_id", "versions.id"),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("statement", sa.Text, nullable=False),
        sa.Column("leaf", sa.Text),
        sa.Column("frontier", sa.Text),
        sa.Column("mu_squares", sa.Double, nullable=False),
        sa.Column("releases", BIG, nullable=False),
        sa.Column("deleted", BIG, nullable=False),
        sa.Column("annex", sa.Text),
        sa.Column("envelope", sa.Text),
        sa.Column("checkpoint", sa.Text),
        sa.CheckConstraint(
            "kind IN ('trained', 'updated', 'retrained', 'withdrawn', 'kept')", name="kind"
        ),
        sa.CheckConstraint("number >= 0", name="number"),
    )
    op.create_index("ix_certificates_version_id", "certificates", ["version_id"])
    op.create_table(
        "certificate_salts",
        id_column(),
        reference("model_id", "models.id"),
        sa.Column("number", BIG, nullable=False),
        reference("request_id", "requests.id"),
        sa.Column("commitment", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
    )
    op.create_index("ix_certificate_salts_request_id", "certificate_salts", ["request_id"])
    op.create_table(
        "signing_keys",
        id_column(),
        reference("model_id", "models.id"),
        sa.Column("public", sa.Text, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.UniqueConstraint("model_id", "public"),
    )
