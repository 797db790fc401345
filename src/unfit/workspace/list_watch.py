"""May a prediction be answered? Only if nobody on the deletion list is remembered."""

from unfit.workspace.deletion_list import DeletionList
from unfit.workspace.list_format import Position


class ListWatch:
    """For who only predicts, and looks at the list each time.

    A list must first be seen to end where this workspace has applied it: a restored backup has not
    come so far. Lines that are added from then on are erasures under way, this workspace's own or
    another's: the model answers until they are in force. A list that is gone, cut or edited is
    refused at any time.
    """

    def __init__(self, deletions: DeletionList) -> None:
        self._deletions = deletions
        self._agreed: Position | None = None

    def may_answer(self, known: Position | None) -> bool:
        """known: how far the list is applied here, as the records say."""
        if self._deletions.check(known):
            self._agreed = known
            return True
        before = self._agreed
        return (
            before is not None and known is not None
            and known.list_id == before.list_id and known.lines >= before.lines
        )  # fmt: skip

    def caught_up(self, known: Position | None) -> None:
        """The list was applied up to its end a moment ago."""
        self._agreed = known

    def start_over(self) -> None:
        """The records may be a backup's."""
        self._agreed = None
