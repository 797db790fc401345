"""What a database URL means here."""

import re

from unfit.errors import Unavailable


def psycopg_url(url: str) -> str:
    """postgresql:// and postgres:// mean psycopg 3 here."""
    if re.match(r"postgres(ql)?://", url):
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise Unavailable(
                "PostgreSQL needs its driver: pip install 'unfit[postgres]'"
            ) from None
        return re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)
    return url
