"""A workspace opened to read its records: config, store, deletion list and lock.

No rows and no model are opened, and nothing that computes is imported, so that `unfit status` and
`unfit token` start fast. A session builds on it.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

from unfit.certify.statement import parse_statement
from unfit.clock import in_utc, now
from unfit.data.kept import Kept, kept_rows
from unfit.errors import Damaged, UnfitError
from unfit.store.records import Version
from unfit.store.store import Store
from unfit.workspace import config as configuration
from unfit.workspace.config import Config
from unfit.workspace.deletion_list import DeletionList
from unfit.workspace.layout import Layout
from unfit.workspace.list_format import Position
from unfit.workspace.lock import Terms, WriterLock
from unfit.workspace.results import CertificateStatus, Status
from unfit.workspace.retention import Retention
from unfit.workspace.signing import SIGNED_NEXT, KeyFile, key_name


class WorkspaceReader:
    """What is on record about a workspace."""

    def __init__(self, path: str | Path = ".", *, clock: Callable[[], datetime] = now) -> None:
        folder = Path(path)
        self.layout = Layout(folder)
        self.clock = in_utc(clock)
        self.config: Config = configuration.read(folder)
        self.layout.restrict()
        self.deletions = DeletionList(self.config.list_path(folder))
        self.lock = WriterLock(self.layout.lock)
        self.store = Store(
            self.config.store_url(folder),
            self.config.id,
            self.clock(),
            self.deletions.key.value,
            self.lock.held,
        )
        self.lock.terms = Terms(read=self.store.model.term, begin_after=self.store.model.begin_term)
        self.store.require_lock(self.lock)
        self.deletions.key.expected = lambda: self.store.model.read().key_fingerprint
        self.key_file = KeyFile(
            self.config.key_path(folder),
            key_name(self.config.id),
            self.store.certificates,
            self.clock,
        )
        self.retention = Retention(
            layout=self.layout,
            store=self.store,
            clock=self.clock,
            window=self.config.retention.audit_window,
        )

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def caught_up(self) -> bool:
        """Whether everybody on the deletion list is forgotten here; False for an old backup."""
        try:
            return self.deletions.check(Position.parse(self.store.model.read().list_known))
        except UnfitError:
            return False

    def status(self) -> Status:
        """What there is; changes nothing."""
        store, policy = self.store, self.config.policy
        version, counts = store.versions.active(), store.requests.counts()
        audits, retained = store.audits.find(), self.retention.status()
        return Status(
            path=str(self.layout.folder),
            method=version.method if version else self.config.model.method,
            version=version,
            forgotten_rows=store.forgotten.counts()[0],
            pending=counts["pending"],
            applied=counts["applied"],
            unmatched=counts["unmatched"],
            purge_due=store.model.read().purge_due or retained.overdue_rows > 0,
            policy=policy.retrain_when,
            threshold=policy.disparity,
            versions=store.versions.find(),
            decisions=store.decisions.find(),
            last_audit=audits[-1] if audits else None,
            list_differs=version is not None and not self.caught_up(),
            audit_window=self.config.retention.audit_window,
            retained=retained,
            certificates=self.certificate_status(),
            kept=self._kept(version),
        )

    def _kept(self, version: Version | None) -> Kept | None:
        """None if the generation has just gone, or is damaged, which opening it will say."""
        if version is None or version.generation is None:
            return None
        try:
            return kept_rows(self.layout.generation(version.generation))
        except (Damaged, KeyError, TypeError):
            return None

    def certificate_status(self) -> CertificateStatus:
        """How many certificates there are, what keeps some waiting, and what they add up to."""
        chosen, records = self.config.certify, self.store.certificates
        entries, waiting = records.count()
        last = records.last() if entries else None
        claim = None if last is None else parse_statement(last.statement.encode())[0]
        return CertificateStatus(
            promised=None if chosen.epsilon is None else (chosen.epsilon, chosen.delta),
            entries=entries,
            waiting=waiting,
            problem=(self.key_file.problem() or SIGNED_NEXT) if waiting else None,
            joint_mu=None if claim is None else claim.joint_mu,
            joint_epsilon=None if claim is None else claim.joint_epsilon,
        )
