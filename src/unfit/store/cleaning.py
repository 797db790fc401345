"""After a commit: ids and file names that nobody needs any more leave the database."""

import re
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.filing import Filing
from unfit.store.reading import CHUNK
from unfit.store.records import Times, Version
from unfit.store.schema import forgotten, items, models, requests, versions

BUSY_SECONDS = 30.0
PATIENCE_MS = 300  # of the cleaning, while which nobody writes; what fails is done later


class Cleaning(Filing):
    """The purging part of the repository."""

    sqlite: bool

    def record_purge(self, version: Version, card_sha: str | None) -> None:
        """Rows were erased: drop the ids of settled requests and the names of removed files."""
        mine = requests.c.model_id == self.model_id
        with self.changing() as connection:
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
                    versions.c.model_id == self.model_id,
                    versions.c.state == "superseded",
                    versions.c.model_sha.is_not(None),
                )
                .values(model_sha=None, card_sha=None, statistics_sha=None, generation=None)
            )
            if card_sha != version.card_sha:  # who has the old card in memory reads this one
                connection.execute(
                    sa.update(versions).where(versions.c.id == version.id).values(card_sha=card_sha)
                )
                self.note_change(connection)

    def clean(self) -> None:
        """Rewrite the tables that held ids, so that no free page or log still does."""
        if self.sqlite:
            self._clean_sqlite()
        else:
            self._clean_postgresql()

    def _clean_postgresql(self) -> None:
        left: list[str] = []

        def noticed(notice: Any) -> None:
            found = re.match(r"(\d+)", notice.message_detail or "")
            if found and int(found[1]):
                left.append(found[1])

        with self.said(), self.engine.connect() as connection:
            plain = connection.execution_options(isolation_level="AUTOCOMMIT")
            driver: Any = plain.connection.driver_connection
            driver.add_notice_handler(noticed)
            plain.exec_driver_sql(f"SET lock_timeout = '{PATIENCE_MS}ms'")
            plain.exec_driver_sql("SET client_min_messages = 'info'")
            try:
                plain.exec_driver_sql("VACUUM (FULL, VERBOSE) request_items")
            finally:
                plain.exec_driver_sql("RESET lock_timeout")
                plain.exec_driver_sql("RESET client_min_messages")
                driver.remove_notice_handler(noticed)
        if left:  # somebody's snapshot is older than the purge
            raise Unavailable("another transaction still sees erased ids; the purge goes on later")

    def _clean_sqlite(self) -> None:
        raw = self.engine.raw_connection()
        cursor = raw.cursor()

        def run(statement: str) -> list[Any]:
            cursor.execute(statement)
            return list(cursor.fetchall())  # to the end: a statement in progress is in the way

        try:
            run(f"PRAGMA busy_timeout = {PATIENCE_MS}")
            try:
                run("VACUUM")
                ((busy, _, _),) = run("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                run(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the database says: {error}") from None
        finally:
            cursor.close()
            raw.close()
        if busy:
            raise Unavailable("the database's log is in use by a reader; the purge goes on later")

    def purge_done(
        self, timed: Sequence[tuple[int, float, Times]] = (), begun: datetime | None = None
    ) -> None:
        """timed: what the versions purged after took in the end: id, seconds, where they went.
        begun: when the purge was; all that was settled before has left the disk.
        """
        with self.changing() as connection:
            for version_id, seconds, times in timed:
                connection.execute(
                    sa.update(versions)
                    .where(versions.c.id == version_id)
                    .values(seconds=seconds, times=times.as_dict())
                )
            done: dict[str, Any] = {"purge_due": False}
            if begun is not None:
                done["purged_at"] = begun
            connection.execute(sa.update(models).where(models.c.id == self.model_id).values(done))

    def retained_no_more(self, version_ids: Sequence[int]) -> None:
        """Deleted rows that were kept for audits are removed."""
        with self.writing() as connection:
            for start in range(0, len(version_ids), CHUNK):
                part = version_ids[start : start + CHUNK]
                connection.execute(
                    sa.update(versions).where(versions.c.id.in_(part)).values(retained_until=None)
                )
