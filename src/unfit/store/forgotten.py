"""Who is forgotten: rows by their numbers, ids by digests that only the digest key can repeat."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, chunks, insert_rows
from unfit.store.records import IdKind
from unfit.store.schema import forgotten, forgotten_ids, requests, versions


class Forgotten:
    """The tables `forgotten` (rows) and `forgotten_ids` (subjects and row ids)."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._rows = forgotten.c.model_id == database.model_id
        self._ids = forgotten_ids.c.model_id == database.model_id
        some = forgotten_ids.c.digest.in_(sa.bindparam("digests", expanding=True))
        ids = sa.select(forgotten_ids.c.kind, forgotten_ids.c.digest)
        self._known = ids.where(self._ids, some)
        each = sa.select(forgotten.c.row, versions.c.number).join(versions)
        self._every = each.where(self._rows).order_by(forgotten.c.row)
        self._by_erased = self._every.where(forgotten.c.erased == sa.bindparam("erased"))
        left = self._rows & ~forgotten.c.erased
        self._note_erased = sa.update(forgotten).where(left).values(erased=True)

    def counts(self) -> tuple[int, int]:
        """How many rows, and how many subjects, were forgotten."""
        rows = sa.select(sa.func.count()).select_from(forgotten).where(self._rows)
        people = sa.select(sa.func.count()).select_from(forgotten_ids).where(self._ids)
        people = people.where(forgotten_ids.c.kind == "subject")
        with self._database.reading() as connection:
            return connection.execute(rows).scalar_one(), connection.execute(people).scalar_one()

    def rows(self, *, erased: bool | None = None) -> list[tuple[int, int]]:
        """(row, version number) of every forgotten row, or of those that are (not) erased."""
        select = self._every if erased is None else self._by_erased
        with self._database.reading() as connection:
            found = connection.execute(select, {} if erased is None else {"erased": erased}).all()
        return [(row[0], row[1]) for row in found]

    def has_digests(self) -> bool:
        """Whether any record, of a request or of somebody forgotten, rests on the digest key."""
        asked = sa.select(requests.c.id).where(requests.c.model_id == self._database.model_id)
        gone = sa.select(forgotten_ids.c.digest).where(self._ids)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(asked.exists(), gone.exists())).one()
        return bool(found[0] or found[1])

    def known_digests(self, digests: Sequence[tuple[IdKind, str]]) -> set[tuple[IdKind, str]]:
        """Which of these ids were forgotten before."""
        found: set[tuple[IdKind, str]] = set()
        if not digests:
            return found
        with self._database.reading() as connection:
            for part in chunks(digests):
                asked = {"digests": [digest for _, digest in part]}
                found |= {(kind, one) for kind, one in connection.execute(self._known, asked)}
        return found

    # --- within a transaction ------------------------------------------------------------------

    def add(
        self,
        connection: sa.Connection,
        version_id: int,
        rows: Iterable[int],
        digests: Iterable[tuple[IdKind, str]],
    ) -> None:
        mine = {"model_id": self._database.model_id}
        gone = mine | {"version_id": version_id, "erased": False}
        insert_rows(connection, forgotten, (gone | {"row": row} for row in rows))
        ids = (mine | {"kind": kind, "digest": digest} for kind, digest in digests)
        insert_rows(connection, forgotten_ids, ids)

    def note_erased(self, connection: sa.Connection) -> None:
        """The bytes of all forgotten rows are gone."""
        connection.execute(self._note_erased)
