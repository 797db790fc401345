"""Tokens and sessions: hashed, with roles; a change is seen by every process at once.

Written by hand: a token is 256 random bits, kept as a hash beside the model it opens, and revoking
it must end its sessions in the same transaction.
"""

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from unfit.errors import BadInput
from unfit.store.database import ModelDatabase, draw
from unfit.store.records import Token
from unfit.store.schema import sessions, tokens

PREFIX = "unfit"


def _hash(secret: str) -> str:
    """Secrets are 256 random bits, so a plain hash protects them."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Tokens:
    """The tables `tokens` and `sessions`: who may do what."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._mine = tokens.c.model_id == database.model_id

    def create(self, name: str, roles: Collection[str], now: datetime) -> tuple[Token, str]:
        """A new token and its text, which is shown once and not stored."""
        public, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            connection.execute(
                sa.insert(tokens).values(
                    model_id=self._database.model_id,
                    public=public,
                    name=name,
                    hash=_hash(secret),
                    roles=" ".join(sorted(roles)),
                    created_at=now,
                )
            )
            self._changed(connection)
            token = Token.from_row(self._find(connection, public).one())
        return token, f"{PREFIX}_{public}_{secret}"

    def revoke(self, public: str, now: datetime) -> Token:
        """Refuse a token from now on and end its sessions."""
        with self._database.writing() as connection:
            row = self._find(connection, public).first()
            if row is None:
                raise BadInput(f"there is no token {public!r}; `unfit token list` shows them")
            connection.execute(sa.delete(sessions).where(sessions.c.token_id == row.id))
            if row.revoked_at is None:
                connection.execute(
                    sa.update(tokens).where(tokens.c.id == row.id).values(revoked_at=now)
                )
            self._changed(connection)
        return Token.from_row(row)

    def all(self) -> list[Token]:
        with self._database.reading() as connection:
            mine = sa.select(tokens).where(self._mine).order_by(tokens.c.id)
            return [Token.from_row(row) for row in connection.execute(mine)]

    def by_text(self, text: str) -> Token | None:
        """The token with this text; None if there is none or it is revoked."""
        prefix, _, rest = text.partition("_")
        public, _, secret = rest.partition("_")
        if prefix != PREFIX or not public.isalnum() or not secret:
            return None
        with self._database.reading() as connection:
            row = self._find(connection, public).first()
        if row is None or not secrets.compare_digest(row.hash, _hash(secret)):
            return None
        return None if row.revoked_at is not None else Token.from_row(row)

    def sign_in(self, token: Token, now: datetime, lasting: timedelta) -> str:
        """A new session's secret, for a cookie."""
        secret = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.expires_at <= now))
            connection.execute(
                sa.insert(sessions).values(
                    hash=_hash(secret), token_id=token.id, created_at=now, expires_at=now + lasting
                )
            )
        return secret

    def by_session(self, secret: str) -> tuple[Token, datetime] | None:
        """The token of a session, and when the session expires."""
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(tokens, sessions.c.expires_at)
                .join(sessions, sessions.c.token_id == tokens.c.id)
                .where(self._mine & (sessions.c.hash == _hash(secret)))
            ).first()
        if row is None or row.revoked_at is not None:
            return None
        return Token.from_row(row), row.expires_at

    def is_valid(self, token: Token, session: str | None, now: datetime) -> bool:
        """Whether a token, or a session given by its secret, is still accepted."""
        if session is not None:
            found = self.by_session(session)
            return found is not None and found[1] > now
        with self._database.reading() as connection:
            mine = self._mine & (tokens.c.id == token.id) & tokens.c.revoked_at.is_(None)
            return connection.execute(sa.select(tokens.c.id).where(mine)).first() is not None

    def sign_out(self, secret: str) -> None:
        with self._database.writing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.hash == _hash(secret)))
            self._changed(connection)

    def _find(self, connection: sa.Connection, public: str) -> sa.CursorResult[Any]:
        return connection.execute(sa.select(tokens).where(self._mine & (tokens.c.public == public)))

    def _changed(self, connection: sa.Connection) -> None:
        self._database.update_model(connection, access=draw())
