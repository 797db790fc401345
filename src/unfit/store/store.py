"""The store of one model: one database, SQLite in the workspace or PostgreSQL by URL.

`Store` opens the database and holds one small repository for each group of tables. Time is handed
in.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from unfit.store import migrations
from unfit.store.audits import Audits
from unfit.store.certificates import Certificates
from unfit.store.change_counter import ChangeCounter
from unfit.store.commit import Commit, Committer
from unfit.store.connections import open_engine
from unfit.store.database import HeldLock, ModelDatabase, explained
from unfit.store.decisions import Decisions
from unfit.store.forgotten import Forgotten
from unfit.store.jobs import Jobs
from unfit.store.leases import Lease
from unfit.store.model_state import ModelState, find_or_create
from unfit.store.purges import Purges
from unfit.store.records import Applied, Decision, NewVersion, Version
from unfit.store.requests import Requests
from unfit.store.tokens import Tokens
from unfit.store.versions import Versions


class Store:
    """The records of one model in a database that may hold several."""

    def __init__(
        self,
        url: str,
        model_key: str,
        now: datetime,
        digest_key: bytes | Callable[[], bytes],
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """digest_key: is kept elsewhere, so that nobody can guess ids from their digests here.

        alone: what to hold while the tables are made or changed.
        """
        engine = open_engine(url)
        with explained():
            if not migrations.up_to_date(engine):
                with alone():
                    migrations.upgrade(engine)
            model_id = find_or_create(engine, model_key, now)
        key = digest_key if callable(digest_key) else lambda: digest_key
        self.database = database = ModelDatabase(engine, model_id, key)
        self.model = ModelState(database)
        self.versions = Versions(database)
        self.requests = Requests(database)
        self.decisions = Decisions(database)
        self.forgotten = Forgotten(database)
        self.audits = Audits(database)
        self.certificates = Certificates(database)
        self.jobs = Jobs(database)
        self.tokens = Tokens(database)
        self.purges = Purges(database, self.versions, self.requests, self.forgotten)
        self._committer = Committer(
            database,
            self.versions,
            self.requests,
            self.decisions,
            self.forgotten,
            self.certificates,
        )

    def committing(
        self,
        started_from: Version | None,
        new: NewVersion | None,
        decision: Decision | None,
        applied: Applied,
        now: datetime,
    ) -> AbstractContextManager[Commit]:
        """See `Committer.committing`."""
        return self._committer.committing(started_from, new, decision, applied, now)

    def commit(
        self,
        started_from: Version | None,
        new: NewVersion | None,
        decision: Decision | None,
        applied: Applied,
        now: datetime,
    ) -> Version:
        """Commit with nothing to do on the way; the version that is active after it."""
        with self.committing(started_from, new, decision, applied, now) as commit:
            return commit.version

    def lease(self, holder: str) -> Lease:
        """The lease on this model, for one worker."""
        return Lease(self.database, holder)

    def require_lease(self, lease: Lease) -> None:
        """From now on, commits, reports and jobs of this process need the lease."""
        self.database.fence = lease.fence

    def require_lock(self, lock: HeldLock) -> None:
        """From now on, what changes while the lock is held needs it in the term it was taken in."""
        self.database.lock = lock

    def change_counter(self) -> ChangeCounter:
        """A connection of its own that tells cheaply whether anything has changed."""
        return ChangeCounter(self.database)

    @property
    def last_change(self) -> int:
        """The number that marks the last commit of this process."""
        return self.database.last_change

    def digest(self, *texts: str) -> str:
        """A keyed digest: it tells that two texts are equal, and not what they are."""
        return self.database.digest(*texts)

    def close(self) -> None:
        self.model.close()
        self.database.engine.dispose()
