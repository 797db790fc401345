"""The one way in which a model changes: a transaction that does everything or nothing.

It moves the active version, the forgotten rows and ids, the states of requests, the decision, the
certificate, and what is applied of the deletion list, together, and only if the version that the
work started from is still active.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from unfit.errors import Damaged, Unavailable
from unfit.store.certificates import Certificates
from unfit.store.database import ModelDatabase
from unfit.store.decisions import Decisions
from unfit.store.forgotten import Forgotten
from unfit.store.records import Applied, Decision, NewVersion, Version
from unfit.store.requests import Requests
from unfit.store.versions import Versions


@dataclass
class Commit:
    """A commit that has passed every check.

    version: the one that is active after it. list_known: how far the deletion list is applied
    after it; whoever appends to the list within the commit sets it.
    """

    version: Version
    list_known: str | None


class Committer:
    def __init__(
        self,
        database: ModelDatabase,
        versions: Versions,
        requests: Requests,
        decisions: Decisions,
        forgotten: Forgotten,
        certificates: Certificates,
    ) -> None:
        self._database, self._certificates = database, certificates
        self._versions, self._requests = versions, requests
        self._decisions, self._forgotten = decisions, forgotten

    @contextmanager
    def committing(
        self,
        started_from: Version | None,
        new: NewVersion | None,
        decision: Decision | None,
        applied: Applied,
        now: datetime,
    ) -> Iterator[Commit]:
        """Make a version the active one (None: keep the one that is) and settle requests.

        The body of the `with` runs after the last check and before the transaction ends, so what
        it writes elsewhere is about people whose requests cannot be refused any more. If it
        raises, nothing is changed here.
        """
        with _fitting(), self._database.changing() as connection:
            self._database.fence(connection)
            if self._versions.active_id(connection) != (started_from and started_from.id):
                raise Unavailable("another worker has changed the model meanwhile; try again")
            if new is not None:
                version = self._versions.activate(connection, started_from, new, now)
            else:
                assert started_from is not None
                version = replace(started_from, **applied.changes_to_active)
                if applied.changes_to_active:
                    self._versions.update(connection, version.id, applied.changes_to_active)
            if decision is not None:
                self._decisions.add(connection, version.id, decision)
            settled = applied.requests, applied.outcomes
            self._requests.settle(connection, version.id, *settled, now)
            self._forgotten.add(connection, version.id, applied.rows, applied.digests)
            if applied.certificate is not None:
                self._certificates.add(connection, version.id, applied.certificate, now)
            # The last statement before the body is a plain one: PostgreSQL 15 does not end a
            # transaction that idles after a pipeline of statements.
            self._database.require_term(connection)
            commit = Commit(version, applied.list_known)
            yield commit
            known = {} if commit.list_known is None else {"list_known": commit.list_known}
            self._database.note_change(connection, purge_due=True, **known)


@contextmanager
def _fitting() -> Iterator[None]:
    """A row that is forgotten twice: the records and the rows come from different times."""
    try:
        yield
    except sa.exc.IntegrityError:
        raise Damaged(
            "the records and the rows of this workspace do not fit together; restore the "
            "database and the folder from the same backup"
        ) from None
