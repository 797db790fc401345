"""What else is known of a version on its held-out people; zeros that nobody measured go.

An erasure that could not be evaluated wrote an accuracy, a slope and an estimate of 0 into its
decision. Such a decision names neither an accuracy nor a slope, which are never 0 when measured.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

INVENTED = ("initial_accuracy", "accuracy", "acc_err_init", "slope", "estimate")


def upgrade() -> None:
    op.add_column("versions", sa.Column("held_out", sa.Text))
    decisions = sa.table(
        "decisions",
        sa.column("id", sa.BigInteger),
        sa.column("inputs", sa.Text),
        sa.column("estimate", sa.Double),
    )
    connection = op.get_bind()
    found = connection.execute(sa.select(decisions).where(decisions.c.estimate == 0.0)).all()
    for row in found:
        inputs = json.loads(row.inputs)
        if any(inputs.get(name) != 0 for name in INVENTED):
            continue
        inputs |= dict.fromkeys(INVENTED)
        connection.execute(
            sa.update(decisions)
            .where(decisions.c.id == row.id)
            .values(inputs=json.dumps(inputs, sort_keys=True), estimate=None)
        )
