"""The migrations of the schema, one file each; `upgrade` brings a database up to date."""

from pathlib import Path

import sqlalchemy as sa

from unfit.errors import Damaged, Unavailable

_FOLDER = Path(__file__).parent
HEAD = max(path.name[:4] for path in (_FOLDER / "versions").glob("[0-9]*.py"))


def up_to_date(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return False
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        if found is not None and str(found) > HEAD:
            raise Unavailable("the records were written by a newer unfit; install that one")
        return bool(found == HEAD)


def upgrade(engine: sa.Engine) -> None:
    """Bring a database up to date, all or nothing; nothing if it is."""
    if up_to_date(engine):
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if sqlite:  # a table that others point at may be made anew
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
            connection.commit()
            connection = connection.execution_options(write=True)
        try:
            with connection.begin():
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                    raise Damaged("the records do not fit together; restore the database")
        finally:
            if sqlite:
                connection.invalidate()  # the next one minds foreign keys again
