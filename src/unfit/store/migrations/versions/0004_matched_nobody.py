"""A request whose ids nobody had is not applied but unmatched."""

from alembic import op

from unfit.store.migrations.tables import set_checks

revision = "0004"
down_revision = "0003"

CHECKS = {
    "state": "state IN ('pending', 'applied', 'unmatched', 'cancelled')",
    "applied_at": "(state IN ('applied', 'unmatched')) = (applied_at IS NOT NULL)",
    "cancelled_at": "(state = 'cancelled') = (cancelled_at IS NOT NULL)",
}


def upgrade() -> None:
    set_checks("requests", CHECKS)
    op.execute(
        "UPDATE requests SET state = 'unmatched' WHERE state = 'applied' AND EXISTS "
        "(SELECT 1 FROM request_items i WHERE i.request_id = requests.id) AND NOT EXISTS "
        "(SELECT 1 FROM request_items i WHERE i.request_id = requests.id "
        "AND (i.outcome IS NULL OR i.outcome <> 'unknown'))"
    )
