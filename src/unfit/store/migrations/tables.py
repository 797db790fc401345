"""What migrations share: the types of columns, and constraints that change on both databases.

Names of keys, indexes and constraints follow the convention of `store.schema`.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def id_column() -> sa.Column[Any]:
    return sa.Column("id", BIG, primary_key=True)


def reference(name: str, to: str, **options: Any) -> sa.Column[Any]:
    """A column that refers to another table's, for example "models.id"."""
    return sa.Column(name, BIG, sa.ForeignKey(to), **({"nullable": False} | options))


def set_checks(table: str, checks: Mapping[str, str]) -> None:
    """From now on a table has these CHECK constraints, by name, and no others."""
    connection = op.get_bind()
    named = {op.f(f"ck_{table}_{name}"): text for name, text in checks.items()}
    if connection.dialect.name == "sqlite":  # which changes no constraint: make the table again
        like = sa.Table(table, sa.MetaData(), autoload_with=connection, resolve_fks=False)
        for old in list(like.constraints):
            if isinstance(old, sa.CheckConstraint):
                like.constraints.remove(old)
        made = tuple(sa.CheckConstraint(text, name=name) for name, text in named.items())
        with op.batch_alter_table(table, recreate="always", copy_from=like, table_args=made):
            return
    for found in sa.inspect(connection).get_check_constraints(table):
        op.drop_constraint(str(found["name"]), table)
    for name, text in named.items():
        op.create_check_constraint(name, table, text)
