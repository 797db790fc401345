"""Errors for people: one sentence that says what was wrong, where, and what to do.

Every room above core may raise them; the command line prints them and exits with `exit_code`.
"""


class UnfitError(ValueError):
    """An error that a person can put right. Whoever raises it has changed nothing."""

    exit_code = 2


class BadInput(UnfitError):
    """A file, table, field or argument that cannot be used."""


class MatchedNobody(BadInput):
    """A request whose ids match nobody, where that is refused (`--strict`)."""

    exit_code = 4


class CannotTrain(UnfitError):
    """Rows or settings from which no model can be made."""


class TooLarge(CannotTrain, FloatingPointError):
    """Rows or weights whose sums no floating-point number holds."""

    def __init__(self) -> None:
        super().__init__(
            "the rows or their weights are too large: sums over them are not finite numbers; scale "
            "the rows (unfit.MaxNormScaler), or use dtype='float64'"
        )


class NoRows(UnfitError, AttributeError):
    """A model without rows, asked for what needs them; an attribute that is such is none."""


class Damaged(UnfitError):
    """A file of the workspace that is not as it was written."""


class Unavailable(UnfitError):
    """Something that cannot be done in the present state of the workspace or the machine."""


class UnreadableThere(Unavailable):
    """A file that a process of a cluster can neither read nor write, whatever this one can."""


class LostLock(Unavailable):
    """Another process has taken over from this one, which hung."""

    def __init__(self) -> None:
        super().__init__(
            "this process hung for so long that another one has taken over; what it had not "
            "committed is undone, so run the command again"
        )


class Withdrawn(Unavailable):
    """A workspace whose model was withdrawn, because too little remained to train another one."""

    def __init__(self) -> None:
        super().__init__(
            "the model was withdrawn by an erasure, because no model could be trained on what "
            "remained; `unfit status` says why"
        )


class Untrained(Unavailable):
    """A workspace without a model."""

    def __init__(self) -> None:
        super().__init__("this workspace has no model yet; `unfit train` makes one")
