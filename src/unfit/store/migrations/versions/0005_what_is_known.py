"""What is known of the deletion list and of its key, and when the last purge was done."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("models", sa.Column("list_known", sa.Text))
    op.add_column("models", sa.Column("key_fingerprint", sa.Text))
    op.add_column("models", sa.Column("purged_at", sa.DateTime(timezone=True)))
