"""The way of the schema, one file a step; `upgrade` brings a database to the last one."""

from pathlib import Path

import sqlalchemy as sa

HEAD = "0001"


def up_to_date(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return False
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        return bool(found == HEAD)


def upgrade(engine: sa.Engine) -> None:
    """Bring a database up to date; nothing if it is."""
    if up_to_date(engine):
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
