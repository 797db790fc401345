"""Where the seconds of a version went, by phase."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("versions", sa.Column("times", sa.Text))
