"""What the store refuses."""

from unfit.errors import BadInput, Unavailable


class KeyUsed(BadInput):
    """The key was used for another request."""


class QueueFull(Unavailable):
    """As many requests or jobs are waiting as may wait."""


class NotWaiting(BadInput):
    """The request is no longer waiting, so it cannot be cancelled."""
