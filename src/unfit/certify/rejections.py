"""What the stand-alone verifier refuses, as the errors of unfit. It can import none of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from unfit.certify.verify import MissingLibrary, Rejected
from unfit.errors import BadInput, Unavailable

INSTALL = 'signing and checking certificates needs an extra: pip install "unfit[certify]"'


@contextmanager
def as_bad_input() -> Iterator[None]:
    """Turn a rejection into an error with the same sentence."""
    try:
        yield
    except MissingLibrary:
        raise Unavailable(INSTALL) from None
    except Rejected as error:
        raise BadInput(str(error)) from None
