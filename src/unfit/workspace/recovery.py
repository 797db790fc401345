"""Recovery: what a crash, another process or a restored backup has left is put in order first.

Whoever opens a workspace for writing comes through here: what is half done is finished, and whoever
the deletion list names and this workspace still remembers is forgotten. The writer's lock is held.
"""

import logging
import uuid

from unfit.errors import Damaged, LostLock, Unavailable, UnfitError
from unfit.store.records import Version
from unfit.store.requests import RESTORED
from unfit.workspace import erasure, purge
from unfit.workspace.deletion_list import REMEDY
from unfit.workspace.list_format import Content
from unfit.workspace.session import Session

log = logging.getLogger("unfit")


def recover(session: Session) -> None:
    """Finish what a crash left undone, of this process or another."""
    before = session.active
    changed = session.refresh()
    if changed and before is not None and not _still_recorded(session, before):
        log.warning("the records are older than before: a backup was restored")
        session.files_checked = False
    if session.active is None:
        _recover_untrained(session)
    else:
        _recover_trained(session)
    session.files_checked = True


def _recover_untrained(session: Session) -> None:
    if session.layout.trained_mark.exists():
        raise Damaged(
            "this workspace was trained, but its database knows nothing of it; restore the "
            "database, or check store.url"
        )
    if not session.files_checked:
        purge.purge_before_training(session)


def _recover_trained(session: Session) -> None:
    if not session.layout.trained_mark.exists():
        session.layout.trained_mark.touch(0o600)
    if not session.files_checked:
        purge.purge_restored_rows(session)
    due = session.record.purge_due and not _purge_may_wait(session)
    if due or (not session.files_checked and purge.has_strays(session)):
        purge.purge(session)
    session.retention.purge_expired()
    session.retention.purge_strays()
    session.purge_salts()


def _still_recorded(session: Session, version: Version) -> bool:
    """Whether the records still hold a version that was active."""
    found = session.store.versions.find(number=version.number)
    return any((v.id, v.activated_at) == (version.id, version.activated_at) for v in found)


def _purge_may_wait(session: Session) -> bool:
    """Whether this session knows in memory who is forgotten, though their bytes are still there."""
    model, active = session.model, session.active
    known = model is not None and active is not None and model.version_id == active.id
    return session.schedule.deferred and known


def catch_up(session: Session) -> None:
    """Forget whoever the deletion list names and this workspace, a backup perhaps, remembers."""
    if session.active is None:
        return
    deletions, known = session.deletions, session.list_known
    nothing_new = deletions.check(known)
    session.check_key()
    if nothing_new:
        return
    added = deletions.read_after(known)
    if known is None or added.position is None or known.list_id != added.position.list_id:
        _check_new_list(session, added)
        deletions.upgrade()
        added = deletions.read()
        assert added.position is not None
        known = deletions.join(session.config.id, added.position)
    else:
        known = added.position
    pending = session.store.requests.find(state="pending")
    waiting = {(item.kind, item.value) for request in pending for item in request.items}
    listed = [pair for pair in added.ids if pair not in waiting]
    outcomes = erasure.resolve_ids(session, listed).outcomes
    missed = [
        pair for pair, (outcome, _) in zip(listed, outcomes, strict=True) if outcome == "forgotten"
    ]
    if missed:
        said = (
            "ids on the deletion list that are still in this workspace, to be forgotten first: %d"
        )
        log.warning(said, len(missed))
        session.store.requests.submit(RESTORED + uuid.uuid4().hex, missed, session.clock())
    if missed or pending:
        erasure.apply_pending(session, known=known, listed=added.ids)
    else:
        session.store.model.set_list_known(str(known))
        session.note_list_known(known)


def try_to_catch_up(session: Session) -> None:
    """Forget whom others have listed meanwhile; if that fails, the next session does it."""
    try:
        catch_up(session)
    except LostLock:
        raise
    except UnfitError as error:
        log.warning("the deletion list is read later: %s", error)


def _check_new_list(session: Session, found: Content) -> None:
    """Check that a list of which nothing was read before is this workspace's, and complete."""
    known, name = session.list_known, session.deletions.path.name
    owners = found.of("workspace")
    if owners and session.config.id not in owners:
        raise Unavailable(
            f"the deletion list {name} belongs to another workspace; put this one's beside it, or "
            "name it in retention.deletion_list"
        )
    if known is None and found.earlier_bytes < session.record.list_position:
        raise Unavailable(
            f"the deletion list {name} was cut: it held {session.record.list_position:,} bytes "
            f"that were read from it; {REMEDY}"
        )
