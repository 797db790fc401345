"""The term of the writer's lock: who holds it since an earlier one has lost it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column(
        "models", sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
