"""A deletion list or a key that is lost for good: what is lost with it, and how to go on."""

from dataclasses import asdict, dataclass
from typing import Any

from unfit.errors import BadInput, UnfitError
from unfit.workspace.deletion_list import fingerprint
from unfit.workspace.list_format import Content
from unfit.workspace.session import Session


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What is wrong with the list and the key, and what follows from it."""

    of_list: str | None  # what is wrong with the list, in a sentence
    of_key: str | None
    lines_known: int  # lines of the list that this workspace had read
    ids_left: int  # ids that the list names now

    @property
    def consequences(self) -> list[str]:
        said = []
        if self.of_list is not None:
            said.append(
                f"The deletion list: this workspace had read {self.lines_known:,} lines of it; "
                f"{self.ids_left:,} ids are on it now. Whoever is forgotten here stays forgotten, "
                "but a backup or a new workspace will not know of anybody who is not on the list."
            )
        if self.of_key is not None:
            said.append(
                "The key: ids that were forgotten before are answered as unknown from now on, "
                "their erasures can no longer be found by id, and keys of earlier requests cannot "
                "be used again."
            )
        return said

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"consequences": self.consequences}


def find(session: Session) -> Loss | None:
    """What is lost; None if list and key are as this workspace knows them."""
    of_list = _wrong_list(session)
    of_key = _wrong_key(session)
    if of_list is None and of_key is None:
        return None
    known = session.list_known
    return Loss(
        of_list=of_list,
        of_key=of_key,
        lines_known=0 if known is None else known.lines,
        ids_left=session.deletions.count_ids(),
    )


def accept(session: Session) -> Loss:
    """Go on with the list and the key as they are, or with new ones."""
    lost = find(session)
    if lost is None:
        raise BadInput("the deletion list and its key are intact; nothing is lost")
    session.deletions.renew(session.list_known)
    key = session.deletions.key.read()
    assert key is not None
    session.store.model.set_key_fingerprint(fingerprint(key))
    return lost


def _wrong_list(session: Session) -> str | None:
    deletions, key = session.deletions, session.deletions.key
    try:
        if session.active is not None:
            deletions.check(session.list_known)
        elif not deletions.exists():
            return str(deletions.gone()) if key.path.exists() else None
        _read(session)
    except UnfitError as error:
        return str(error)
    return None


def _read(session: Session) -> Content:
    content = session.deletions.read()
    if content.position is None and not content.entries:
        raise session.deletions.emptied()
    return content


def _wrong_key(session: Session) -> str | None:
    key = session.deletions.key
    try:
        found = key.read()
    except UnfitError as error:
        return str(error)
    try:
        listed = _read(session).key_fingerprint
    except UnfitError:
        listed = None
    expected = session.record.key_fingerprint or listed
    if found is None:
        needed = expected is not None or session.store.forgotten.has_digests()
        return str(key.lost()) if needed else None
    return str(key.wrong()) if expected not in (None, fingerprint(found)) else None
