"""The version that answers is called active, and the decision for an unlearned one is "update"."""

import sqlalchemy as sa
from alembic import op

from unfit.store.migrations.tables import set_checks

revision = "0008"
down_revision = "0007"

VERSIONS = {
    "kind": "kind IN ('trained', 'updated', 'retrained', 'withdrawn')",
    "superseded_at": "(state = 'superseded') = (superseded_at IS NOT NULL)",
}
STATE = {"state": "state IN ('active', 'superseded')"}
ACTION = {"action": "action IN ('open', 'update', 'retrain', 'withdraw')"}


def upgrade() -> None:
    op.drop_index("uq_versions_employed", "versions")
    op.execute("ALTER TABLE versions RENAME COLUMN employed_at TO activated_at")
    set_checks("versions", VERSIONS)
    op.execute("UPDATE versions SET state = 'active' WHERE state = 'employed'")
    set_checks("versions", VERSIONS | STATE)
    op.create_index(
        "uq_versions_active",
        "versions",
        ["model_id"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    set_checks("decisions", {})
    op.execute("UPDATE decisions SET action = 'update' WHERE action = 'employ'")
    set_checks("decisions", ACTION)
