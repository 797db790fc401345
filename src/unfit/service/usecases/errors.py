"""What a use case cannot do, for the person who asked."""

from unfit.errors import UnfitError


class NotFound(UnfitError):
    """There is no record of that number."""


class NotFinished(UnfitError):
    """The record has no result yet."""
