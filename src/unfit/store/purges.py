"""Purges: ids and file names that nobody needs any more leave the database after a commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.store.database import ModelDatabase
from unfit.store.forgotten import Forgotten
from unfit.store.records import Times, Version
from unfit.store.requests import Requests
from unfit.store.schema import certificate_salts, requests
from unfit.store.vacuum import vacuum
from unfit.store.versions import Versions


@dataclass(frozen=True)
class Removed:
    """What a purge has removed from the tables: texts, and a sign that changes whenever something
    else is removed by others (a request that is cancelled, salts that are handed out)."""

    texts: list[str]
    by_others: tuple[int, ...]


class Purges:
    """What a purge does to the records. `purge_due` stays set until `finish`."""

    def __init__(
        self,
        database: ModelDatabase,
        versions: Versions,
        requests: Requests,
        forgotten: Forgotten,
    ) -> None:
        self._database = database
        self._versions, self._requests, self._forgotten = versions, requests, forgotten
        self._by_others = _by_others(database.model_id)

    def record(self, version: Version, card_sha: str | None) -> Removed:
        """Rows are erased: drop the ids of settled requests and the names of removed files.

        card_sha: of the version's card as it is now. It lasts before the old card is removed; the
        rest may wait for the vacuum, since a purge that was cut short is repeated.
        """
        with self._database.changing(lasting=card_sha != version.card_sha) as connection:
            removed = self._requests.purge_settled_ids(connection)
            self._forgotten.note_erased(connection)
            kept = {card_sha, version.statistics_sha}
            removed += self._versions.purge_superseded_files(connection, kept)
            if card_sha != version.card_sha:  # who has the old card in memory reads this one
                self._versions.update(connection, version.id, {"card_sha": card_sha})
                self._database.note_change(connection)
            by_others = connection.execute(self._by_others).one()
            return Removed(removed, tuple(int(n or 0) for n in by_others))

    def vacuum(self, removed: Sequence[str] | None = None) -> None:
        """See to it that no free page and no log still holds what was removed.

        removed: the texts, where all are known that were removed since the last time.
        """
        vacuum(self._database.engine, removed)

    def finish(
        self, timed: Sequence[tuple[int, float, Times]] = (), begun: datetime | None = None
    ) -> None:
        """The purge is done.

        timed: what versions since the last purge took in the end, as (id, seconds, times). begun:
        when the purge began; everything that was settled before has left the disk. If a power cut
        takes this back, the purge is repeated.
        """
        done: dict[str, Any] = {"purge_due": False}
        if begun is not None:
            done["purged_at"] = begun
        with self._database.changing(lasting=False) as connection:
            for version_id, seconds, times in timed:
                self._versions.update(connection, version_id, {"seconds": seconds, "times": times})
            self._database.update_model(connection, **done)


def _by_others(model_id: int) -> sa.Select[Any]:
    """What changes when others remove something; see Removed."""
    mine = requests.c.model_id == model_id
    cancelled = sa.select(sa.func.count()).where(mine, requests.c.state == "cancelled")
    salts = sa.select(sa.func.count()).select_from(certificate_salts)
    last = sa.select(sa.func.max(certificate_salts.c.id))
    return sa.select(*(one.scalar_subquery() for one in (cancelled, salts, last)))
