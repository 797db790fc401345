"""After a commit: ids and file names that nobody needs any more leave the database."""

import sqlite3

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.filing import Filing
from unfit.store.records import Version
from unfit.store.schema import forgotten, items, models, requests, versions

BUSY_SECONDS = 30.0


class Cleaning(Filing):
    """The purging part of the repository."""

    sqlite: bool

    def record_purge(self, version: Version, card_sha: str | None) -> None:
        """Rows were erased: drop the ids of settled requests and the names of removed files."""
        mine = requests.c.model_id == self.model_id
        with self.writing() as connection:
            applied = sa.select(requests.c.id).where(mine & (requests.c.state != "pending"))
            connection.execute(
                sa.update(items)
                .where(items.c.request_id.in_(applied) & items.c.value.is_not(None))
                .values(value=None)
            )
            connection.execute(
                sa.update(forgotten)
                .where((forgotten.c.model_id == self.model_id) & ~forgotten.c.erased)
                .values(erased=True)
            )
            connection.execute(
                sa.update(versions)
                .where(
                    (versions.c.model_id == self.model_id) & (versions.c.state == "superseded")
                    & versions.c.model_sha.is_not(None)
                )
                .values(model_sha=None, card_sha=None, statistics_sha=None, generation=None)
            )  # fmt: skip
            if card_sha != version.card_sha:
                connection.execute(
                    sa.update(versions).where(versions.c.id == version.id).values(card_sha=card_sha)
                )

    def clean(self) -> None:
        """Rewrite the tables that held ids, so that no free page or log still does."""
        if not self.sqlite:
            with self.said(), self.engine.connect() as connection:
                plain = connection.execution_options(isolation_level="AUTOCOMMIT")
                plain.exec_driver_sql(f"SET lock_timeout = '{int(1000 * BUSY_SECONDS / 3)}ms'")
                try:
                    plain.exec_driver_sql("VACUUM FULL request_items")
                finally:
                    plain.exec_driver_sql("RESET lock_timeout")
            return
        raw = self.engine.raw_connection()
        try:
            raw.cursor().execute("VACUUM")
            busy, _, _ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the database says: {error}") from None
        finally:
            raw.close()
        if busy:
            raise Unavailable("the database's log is in use by a reader; the purge goes on later")

    def purge_done(self) -> None:
        with self.writing() as connection:
            connection.execute(
                sa.update(models).where(models.c.id == self.model_id).values(purge_due=False)
            )
