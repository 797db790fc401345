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
    access = store.tokens
    token, text = access.create("till", ["predict", "erase"], NOW)
    assert access.by_text(text) == token
    assert token.roles == {"predict", "erase"}
    prefix, public, secret = text.split("_", 2)
    assert (prefix, public) == ("unfit", token.public)
    assert len(secret) >= 43  # 256 bits
    other, _ = access.create("other", ["admin"], NOW)
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
        assert access.by_text(wrong) is None, wrong
    assert [t.name for t in access.all()] == ["till", "other"]


def test_neither_a_token_nor_a_session_is_in_the_database(store: Store) -> None:
    access = store.tokens
    token, text = access.create("till", ["predict"], NOW)
    session = access.sign_in(token, NOW, timedelta(hours=1))
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
    access = store.tokens
    (gone, text), (stays, other) = (access.create(n, ["admin"], NOW) for n in ("gone", "stays"))
    sessions = [access.sign_in(gone, NOW, timedelta(hours=1)) for _ in range(2)]
    kept = access.sign_in(stays, NOW, timedelta(hours=1))
    access.revoke(gone.public, NOW)
    assert access.by_text(text) is None
    assert [access.by_session(s) for s in sessions] == [None, None]
    assert access.by_text(other) == stays
    assert access.by_session(kept) == (stays, NOW + timedelta(hours=1))
    with store.database.reading() as connection:
        assert len(connection.execute(sa.select(schema.sessions)).all()) == 1
    later = NOW + timedelta(days=1)
    access.revoke(gone.public, later)  # again changes nothing
    assert [t.revoked_at for t in access.all()] == [NOW, None]
    with pytest.raises(BadInput, match="there is no token 'nobody'"):
        access.revoke("nobody", NOW)


def test_sessions_end_by_signing_out_and_leave_when_their_time_is_over(store: Store) -> None:
    access = store.tokens
    token, _ = access.create("till", ["admin"], NOW)
    first, second = (access.sign_in(token, NOW, timedelta(hours=1)) for _ in range(2))
    access.sign_out(first)
    assert access.by_session(first) is None
    assert access.by_session(second) is not None
    access.sign_in(token, NOW + timedelta(hours=2), timedelta(hours=1))
    assert access.by_session(second) is None


def test_a_token_of_another_model_is_none_here(store: Store, url: str) -> None:
    other = Store(url, "other", NOW, b"another")
    token, text = other.tokens.create("theirs", ["admin"], NOW)
    session = other.tokens.sign_in(token, NOW, timedelta(hours=1))
    access = store.tokens
    assert access.by_text(text) is None
    assert access.by_session(session) is None
    assert access.all() == []
    with pytest.raises(BadInput):
        access.revoke(token.public, NOW)
    other.close()


def test_a_watch_sees_every_change_made_elsewhere(
    store: Store, open_store: Callable[[], Store]
) -> None:
    watch, elsewhere = store.change_counter(), open_store()
    access = elsewhere.tokens
    seen = [watch.read()]
    assert watch.read() == seen[0]
    token, _ = access.create("till", ["admin"], NOW)
    seen.append(watch.read())
    session = access.sign_in(token, NOW, timedelta(hours=1))
    assert watch.read() == seen[-1]  # nobody can have known it before
    access.sign_out(session)
    seen.append(watch.read())
    access.revoke(token.public, NOW)
    seen.append(watch.read())
    assert len({s.access for s in seen}) == 4
    assert len({s.changes for s in seen}) == 1
    opened(elsewhere)
    after = watch.read()
    assert (after.changes != seen[-1].changes, after.access) == (True, seen[-1].access)
    watch.close()
    again = watch.read()  # over a new connection
    assert again[:2] == after[:2]
    assert again.place != after.place
    watch.close()


def test_a_watch_whose_connection_breaks_takes_another_and_says_if_there_is_none(
    url: str, open_store: Callable[[], Store], request: pytest.FixtureRequest
) -> None:
    store = open_store()
    watch = store.change_counter()
    seen = watch.read()
    if store.database.sqlite:
        Path(str(store.database.engine.url.database)).rename(
            f"{store.database.engine.url.database}.away"
        )
        watch.close()
    else:
        server = request.getfixturevalue("server")
        name = str(store.database.engine.url.database)
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        server.run(cut)
        assert watch.read()[:2] == seen[:2]
        store.database.engine.dispose()
        server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.run(cut)
    with pytest.raises(Unavailable, match="the database says"):
        watch.read()
    watch.close()


def test_a_database_that_another_file_has_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "unfit.db"
    store = Store(f"sqlite:///{path}", "w", NOW, b"key")
    watch, access = store.change_counter(), store.tokens
    token, text = access.create("till", ["admin"], NOW)
    store.purges.vacuum()
    shutil.copy(path, tmp_path / "backup")
    before = watch.read()
    access.revoke(token.public, NOW)
    assert access.by_text(text) is None
    revoked = watch.read()
    for name in ("unfit.db", "unfit.db-wal", "unfit.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(Unavailable, match="the database says"):
        store.versions.active()
    assert not path.exists()  # and is not made anew
    (tmp_path / "backup").rename(path)
    after = watch.read()
    assert (after.access, after.changes) == (before.access, before.changes)
    assert len({before.place, revoked.place, after.place}) == 2
    assert access.by_text(text) is not None  # as the backup says
    watch.close()
    store.close()
