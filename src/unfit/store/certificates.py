"""Certificates: one for every version that is released, in a log that only grows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, insert_rows
from unfit.store.records import CertificateRecord, NewCertificate, Salt
from unfit.store.schema import certificate_salts, certificates, signing_keys, versions


class Certificates:
    """The tables `certificates`, `certificate_salts` and `signing_keys`."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._mine = certificates.c.model_id == database.model_id
        self._salts = certificate_salts.c.model_id == database.model_id
        self._old_salts = self._salts & (certificate_salts.c.made_at < sa.bindparam("before"))
        self._count_old_salts = (
            sa.select(sa.func.count()).select_from(certificate_salts).where(self._old_salts)
        )
        self._drop_old_salts = sa.delete(certificate_salts).where(self._old_salts)

    def last(self) -> CertificateRecord | None:
        """The newest; the next one stands on it."""
        found = self.find(last=1)
        return found[0] if found else None

    def find(
        self,
        *,
        version: int | None = None,
        number: int | None = None,
        signed: bool | None = None,
        before: int | None = None,
        last: int | None = None,
    ) -> list[CertificateRecord]:
        """In the order of the log; the last so many. before: only places below this one."""
        select = (
            sa.select(certificates, versions.c.number.label("version_number"))
            .join(versions, versions.c.id == certificates.c.version_id)
            .where(self._mine)
        )
        if version is not None:
            select = select.where(versions.c.number == version)
        if number is not None:
            select = select.where(certificates.c.number == sa.literal(number, sa.BigInteger))
        if before is not None:
            select = select.where(certificates.c.number < sa.literal(before, sa.BigInteger))
        if signed is not None:
            select = select.where(certificates.c.envelope.is_not(None) == sa.literal(signed))
        with self._database.reading() as connection:
            order = certificates.c.number.desc()
            rows = connection.execute(select.order_by(order).limit(last)).all()
        return [CertificateRecord.from_row(row) for row in reversed(rows)]

    def count(self) -> tuple[int, int]:
        """How many there are, and how many of them wait for a signature."""
        number = sa.select(sa.func.count(), sa.func.count(certificates.c.envelope))
        with self._database.reading() as connection:
            every, signed = connection.execute(number.where(self._mine)).one()
        return every, every - signed

    def leaves(self) -> list[str]:
        """The leaves of the log, from its beginning; those that wait for a signature are none."""
        select = sa.select(certificates.c.leaf).where(self._mine, certificates.c.leaf.is_not(None))
        with self._database.reading() as connection:
            found = connection.execute(select.order_by(certificates.c.number))
            return [str(leaf) for leaf in found.scalars()]

    def envelopes(self, size: int, at_once: int = 500) -> Iterator[str]:
        """The signed certificates of a log of this size, from its beginning, some at a time."""
        place = certificates.c.number
        for start in range(0, size, at_once):
            some = place.between(start, min(start + at_once, size) - 1)
            select = sa.select(certificates.c.envelope).where(self._mine, some).order_by(place)
            with self._database.reading() as connection:
                yield from [str(text) for text in connection.execute(select).scalars()]

    def sign(self, signed: NewCertificate) -> None:
        """A certificate that has waited for a key is signed."""
        columns = ("statement", "annex", "envelope", "leaf", "frontier", "checkpoint")
        with self._database.changing() as connection:
            connection.execute(
                sa.update(certificates)
                .where(self._mine, certificates.c.number == signed.number)
                .values({name: getattr(signed, name) for name in columns})
            )

    # --- salts ---------------------------------------------------------------------------------

    def salts(self, request_id: int) -> list[Salt]:
        """Those of a request that were not handed out yet."""
        select = sa.select(certificate_salts).where(
            self._salts, certificate_salts.c.request_id == request_id
        )
        with self._database.reading() as connection:
            rows = connection.execute(select.order_by(certificate_salts.c.id)).all()
        return [_salt(row) for row in rows]

    @contextmanager
    def handing_out(self, request_id: int) -> Iterator[list[Salt]]:
        """The salts of a request, which are removed when the block ends, and stay if it fails. Of
        two who ask at once, one waits and then finds none."""
        mine = self._salts & (certificate_salts.c.request_id == request_id)
        with self._database.queueing() as connection:
            select = sa.select(certificate_salts).where(mine).order_by(certificate_salts.c.id)
            found = [_salt(row) for row in connection.execute(select)]
            yield found
            if found:
                connection.execute(sa.delete(certificate_salts).where(mine))
                self._database.update_model(connection, purge_due=True)

    def purge_salts(self, *, before: datetime) -> int:
        """Remove the salts that are older; how many. A purge of bytes is due then."""
        older = {"before": before}
        with self._database.reading() as connection:
            if not connection.execute(self._count_old_salts, older).scalar_one():
                return 0
        with self._database.queueing() as connection:
            gone = connection.execute(self._drop_old_salts, older).rowcount
            if gone:
                self._database.update_model(connection, purge_due=True)
        return int(gone)

    # --- keys ----------------------------------------------------------------------------------

    def public_keys(self) -> list[str]:
        """The public keys that certificates of this workspace were signed with, the newest last."""
        mine = signing_keys.c.model_id == self._database.model_id
        select = sa.select(signing_keys.c.public).where(mine).order_by(signing_keys.c.id)
        with self._database.reading() as connection:
            return list(connection.execute(select).scalars())

    def add_key(self, public: str, now: datetime) -> None:
        """From now on, certificates are signed with another key."""
        row = {"model_id": self._database.model_id, "public": public, "since": now}
        with self._database.changing() as connection:
            connection.execute(sa.insert(signing_keys).values(**row))

    # --- within a transaction ------------------------------------------------------------------

    def add(
        self, connection: sa.Connection, version_id: int, new: NewCertificate, now: datetime
    ) -> None:
        """Append to the log. The place must be the next one: places are given once."""
        mine = {"model_id": self._database.model_id}
        row = mine | {"version_id": version_id, "at": now} | new.columns()
        connection.execute(sa.insert(certificates).values(**row))
        self._add_salts(connection, new.number, new.salts, now)

    def _add_salts(
        self, connection: sa.Connection, number: int, salts: Sequence[Salt], now: datetime
    ) -> None:
        mine = {"model_id": self._database.model_id, "number": number, "made_at": now}
        rows = (
            mine | {"request_id": salt.request_id, "commitment": salt.commitment, "salt": salt.salt}
            for salt in salts
        )
        insert_rows(connection, certificate_salts, rows)


def _salt(row: sa.Row[Any]) -> Salt:
    return Salt(request_id=row.request_id, commitment=row.commitment, salt=row.salt)
