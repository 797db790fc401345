"""Tokens and sessions: only hashes are kept, and whatever changes is seen."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_records import NOW, opened

from unfit.errors import BadInput, Unavailable
from unfit.store import schema
from unfit.store.store import Store


def test_a_token_opens_with_its_text_and_with_nothing_else(store: Store) -> None:
    tokens = store.tokens
    token, text = tokens.create("till", ["predict", "erase"], NOW)
    assert tokens.by_text(text) == token
    assert token.roles == {"predict", "erase"}
    prefix, public, secret = text.split("_", 2)
    assert (prefix, public) == ("unfit", token.public)
    assert len(secret) >= 43  # 256 bits
    other, _ = tokens.create("other", ["admin"], NOW)
    for wrong in (
        "",
        "unfit",
        public,
        secret,
        f"unfit_{public}",
        f"unfit_{public}_",
        text + "x",
        text[:-1],
        text.upper(),
        f"unfit_{other.public}_{secret}",
        f"fit_{public}_{secret}",
        f"unfit_\0_{secret}",
        f"unfit_%_{secret}",
        f"unfit_{public}' OR '1'='1_{secret}",
    ):
        assert tokens.by_text(wrong) is None, wrong
    assert [t.name for t in tokens.all()] == ["till", "other"]


def test_neither_a_token_nor_a_session_is_in_the_database(store: Store) -> None:
    tokens = store.tokens
    token, text = tokens.create("till", ["predict"], NOW)
    session = tokens.sign_in(token, NOW, timedelta(hours=1))
    secret = text.split("_", 2)[2]
    with store.database.reading() as connection:
        for table in schema.metadata.sorted_tables:
            for row in connection.execute(sa.select(table)):
                assert secret not in str(row)
                assert session not in str(row)
    if store.database.sqlite:
        folder = Path(str(store.database.engine.url.database)).parent
        files = [path.read_bytes() for path in folder.iterdir()]
        assert any(token.public.encode() in content for content in files)
        for content in files:
            assert secret.encode() not in content
            assert session.encode() not in content


def test_a_revoked_token_is_refused_and_its_sessions_end(store: Store) -> None:
    tokens = store.tokens
    (gone, text), (stays, other) = (tokens.create(n, ["admin"], NOW) for n in ("gone", "stays"))
    sessions = [tokens.sign_in(gone, NOW, timedelta(hours=1)) for _ in range(2)]
    kept = tokens.sign_in(stays, NOW, timedelta(hours=1))
    tokens.revoke(gone.public, NOW)
    assert tokens.by_text(text) is None
    assert [tokens.by_session(s) for s in sessions] == [None, None]
    assert tokens.by_text(other) == stays
    assert tokens.by_session(kept) == (stays, NOW + timedelta(hours=1))
    with store.database.reading() as connection:
        assert len(connection.execute(sa.select(schema.sessions)).all()) == 1
    later = NOW + timedelta(days=1)
    tokens.revoke(gone.public, later)  # again changes nothing
    assert [t.revoked_at for t in tokens.all()] == [NOW, None]
    with pytest.raises(BadInput, match="there is no token 'nobody'"):
        tokens.revoke("nobody", NOW)


def test_sessions_end_by_signing_out_and_leave_when_their_time_is_over(store: Store) -> None:
    tokens = store.tokens
    token, _ = tokens.create("till", ["admin"], NOW)
    first, second = (tokens.sign_in(token, NOW, timedelta(hours=1)) for _ in range(2))
    tokens.sign_out(first)
    assert tokens.by_session(first) is None
    assert tokens.by_session(second) is not None
    tokens.sign_in(token, NOW + timedelta(hours=2), timedelta(hours=1))
    assert tokens.by_session(second) is None


def test_a_token_of_another_model_is_none_here(store: Store, url: str) -> None:
    other = Store(url, "other", NOW, b"another")
    token, text = other.tokens.create("theirs", ["admin"], NOW)
    session = other.tokens.sign_in(token, NOW, timedelta(hours=1))
    tokens = store.tokens
    assert tokens.by_text(text) is None
    assert tokens.by_session(session) is None
    assert tokens.all() == []
    with pytest.raises(BadInput):
        tokens.revoke(token.public, NOW)
    other.close()


def test_a_change_counter_sees_every_change_made_elsewhere(
    store: Store, open_store: Callable[[], Store]
) -> None:
    counter, elsewhere = store.change_counter(), open_store()
    tokens = elsewhere.tokens
    seen = [counter.read()]
    assert counter.read() == seen[0]
    token, _ = tokens.create("till", ["admin"], NOW)
    seen.append(counter.read())
    session = tokens.sign_in(token, NOW, timedelta(hours=1))
    assert counter.read() == seen[-1]  # nobody can have known it before
    tokens.sign_out(session)
    seen.append(counter.read())
    tokens.revoke(token.public, NOW)
    seen.append(counter.read())
    assert len({s.access for s in seen}) == 4
    assert len({s.changes for s in seen}) == 1
    opened(elsewhere)
    after = counter.read()
    assert (after.changes != seen[-1].changes, after.access) == (True, seen[-1].access)
    counter.close()
    again = counter.read()  # over a new connection
    assert again[:2] == after[:2]
    assert again.place != after.place
    counter.close()


def test_a_change_counter_whose_connection_breaks_takes_another_and_says_if_there_is_none(
    url: str, open_store: Callable[[], Store], request: pytest.FixtureRequest
) -> None:
    store = open_store()
    counter = store.change_counter()
    seen = counter.read()
    if store.database.sqlite:
        Path(str(store.database.engine.url.database)).rename(
            f"{store.database.engine.url.database}.away"
        )
        counter.close()
    else:
        server = request.getfixturevalue("server")
        name = str(store.database.engine.url.database)
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        server.run(cut)
        assert counter.read()[:2] == seen[:2]
        store.database.engine.dispose()
        server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.run(cut)
    with pytest.raises(Unavailable, match="the database says"):
        counter.read()
    counter.close()


def test_a_database_that_another_file_has_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "unfit.db"
    store = Store(f"sqlite:///{path}", "w", NOW, b"key")
    counter, tokens = store.change_counter(), store.tokens
    token, text = tokens.create("till", ["admin"], NOW)
    store.purges.vacuum()
    shutil.copy(path, tmp_path / "backup")
    before = counter.read()
    tokens.revoke(token.public, NOW)
    assert tokens.by_text(text) is None
    revoked = counter.read()
    for name in ("unfit.db", "unfit.db-wal", "unfit.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(Unavailable, match="the database says"):
        store.versions.active()
    assert not path.exists()  # and is not made anew
    (tmp_path / "backup").rename(path)
    after = counter.read()
    assert (after.access, after.changes) == (before.access, before.changes)
    assert len({before.place, revoked.place, after.place}) == 2
    assert tokens.by_text(text) is not None  # as the backup says
    counter.close()
    store.close()
