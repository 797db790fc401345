"""Named points: the places where a process may die, so that tests can kill it there.

`reach(name)` does nothing in normal operation. Every name is listed here; a test kills a process at
each of them and compares what is left with the states before and after.
"""

from collections.abc import Callable

POINTS = (
    "list.created",
    "list.key-written",
    "list.upgraded",
    "list.half-written",
    "train.start",
    "train.rows-spooled",
    "train.dataset-written",
    "train.trained",
    "train.artifacts-written",
    "train.committed",
    "forget.submitted",
    "forget.taken",
    "forget.unlearned",
    "forget.retained",
    "forget.artifacts-written",
    "forget.certified",
    "forget.listed",
    "forget.committed",
    "retrain.start",
    "retrain.dataset-written",
    "retrain.trained",
    "retrain.artifacts-written",
    "retrain.committed",
    "purge.start",
    "purge.rows-erased",
    "purge.ids-erased",
    "purge.vocabulary-rewritten",
    "purge.card-rewritten",
    "purge.recorded",
    "purge.files-removed",
    "purge.database-vacuumed",
    "purge.done",
    "retained.removed",
    "prepare.written",
    "prepare.recorded",
)

observer: Callable[[str], None] | None = None  # tests put theirs here


def reach(name: str) -> None:
    if observer is not None:
        observer(name)
