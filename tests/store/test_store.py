"""The repository on both databases: what must never happen cannot be written."""

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_records import NEW, NOW, opened

from unfit.errors import BadInput, Damaged, Unavailable
from unfit.store import schema
from unfit.store.artifacts import Artifacts
from unfit.store.records import Applied, Decision
from unfit.store.store import Store


def test_a_model_is_found_again_and_apart_from_others(store: Store, url: str) -> None:
    opened(store)
    again, other = Store(url, "w", NOW, b"key"), Store(url, "other", NOW, b"another")
    assert again.versions.active() == store.versions.active()
    assert again.digest("a", "b") == store.digest("a", "b") != store.digest("ab", "")
    assert other.versions.active() is None
    assert other.digest("a", "b") != store.digest("a", "b")
    for one in (again, other):
        one.close()


def test_a_commit_moves_everything_together(store: Store) -> None:
    opened(store)
    first = store.versions.active()
    assert first is not None
    request = store.requests.submit("k", [("subject", "a"), ("row", "7")], NOW)
    item_ids = [i.id for i in store.requests.find(state="pending")[0].items]
    applied = Applied(
        requests=[request],
        outcomes=[(item_ids[0], "forgotten", 2), (item_ids[1], "unknown", 0)],
        rows=[3, 4],
        digests=[("subject", store.digest("subject", "a"))],
        list_known="list:2:digest",
    )
    why = Decision(
        version=2,
        at=NOW,
        action="update",
        reason="because",
        inputs={"x": 1},
        estimate=0.5,
        threshold=1.0,
    )
    second = store.commit(first, replace(NEW, kind="updated", model_sha="m2"), why, applied, NOW)
    assert (second.number, second.model_sha) == (2, "m2")
    assert store.versions.active() == second
    assert [v.state for v in store.versions.find()] == ["superseded", "active"]
    assert store.forgotten.rows() == [(3, 2), (4, 2)]
    assert store.forgotten.known_digests([("subject", store.digest("subject", "a"))])
    assert store.model.read().list_known == "list:2:digest"
    assert store.model.read().purge_due
    (done,) = store.requests.find()
    assert (done.state, done.version, done.applied_at) == ("applied", 2, NOW)
    assert [(i.outcome, i.rows) for i in done.items] == [("forgotten", 2), ("unknown", 0)]
    assert store.decisions.find()[-1] == why
    store.purges.record(second, "c2")
    store.purges.vacuum()
    store.purges.finish()
    assert [i.value for i in store.requests.find()[0].items] == [None, None]
    assert store.forgotten.rows(erased=False) == []
    assert not store.model.read().purge_due
    assert [(v.model_sha, v.card_sha) for v in store.versions.find()] == [
        (None, None),
        ("m2", "c2"),
    ]


def everything(store: Store) -> tuple[object, ...]:
    records = store.versions.find(), store.requests.find(), store.decisions.find()
    return (*records, store.forgotten.rows(), store.model.read())


def test_a_commit_that_fails_changes_nothing(store: Store) -> None:
    opened(store)
    first = store.versions.active()
    store.commit(first, None, None, Applied(rows=[3]), NOW)
    request = store.requests.submit("k", [("row", "3")], NOW)
    before = everything(store)
    with pytest.raises(Damaged, match="do not fit together"):  # a row is forgotten once
        applied = Applied(requests=[request], rows=[3])
        store.commit(first, replace(NEW, kind="updated"), None, applied, NOW)
    assert everything(store) == before
    with pytest.raises(Unavailable, match="another worker"):  # the version moved on
        store.commit(None, NEW, None, Applied(), NOW)
    store.commit(first, None, None, Applied(requests=[request]), NOW)
    with pytest.raises(Unavailable, match="another worker"):  # the request was applied
        store.commit(first, None, None, Applied(requests=[request]), NOW)


def test_what_fails_within_a_commit_undoes_it(store: Store) -> None:
    opened(store)
    first = store.versions.active()
    request = store.requests.submit("k", [("row", "3")], NOW)
    before, applied = everything(store), Applied(requests=[request], rows=[3])
    new = replace(NEW, kind="updated")
    with (
        pytest.raises(OSError, match="no space"),
        store.committing(first, new, None, applied, NOW) as commit,
    ):
        assert commit.version.number == 2
        raise OSError("no space")
    assert everything(store) == before
    with store.committing(first, new, None, applied, NOW) as commit:
        commit.list_known = "list:1:digest"
    assert store.versions.active() == commit.version
    assert store.model.read().list_known == "list:1:digest"


def test_nothing_is_done_within_a_commit_that_is_refused(store: Store) -> None:
    """A request that may still be refused never reaches what the body writes elsewhere."""
    opened(store)
    first = store.versions.active()
    request = store.requests.submit("k", [("row", "3")], NOW)
    store.commit(first, None, None, Applied(requests=[request], rows=[3]), NOW)
    refused = [
        (None, Applied()),  # the version moved on
        (first, Applied(requests=[request])),  # the request was applied
        (first, Applied(rows=[3])),  # the row was forgotten
    ]
    reached = []
    for started_from, applied in refused:
        with (
            pytest.raises((Unavailable, Damaged)),
            store.committing(started_from, replace(NEW, kind="updated"), None, applied, NOW),
        ):
            reached.append(applied)
    assert reached == []


def test_the_schema_refuses_what_must_not_be(store: Store) -> None:
    opened(store)
    employed = {
        "model_id": 1,
        "number": 2,
        "kind": "updated",
        "state": "active",
        "activated_at": NOW,
        "method": "fisher",
        "rows": 1,
        "subjects": 1,
        "deleted": 0,
        "seconds": 0.0,
        "baseline": {},
    }
    request = {
        "model_id": 1,
        "key": "k",
        "fingerprint": "f",
        "state": "pending",
        "submitted_at": NOW,
    }
    store.requests.submit("k", [("row", "1")], NOW)
    wrong = [
        (schema.versions, employed),  # two employed versions
        (schema.versions, employed | {"state": "superseded"}),  # superseded at no time
        (schema.versions, employed | {"number": 1, "state": "superseded", "superseded_at": NOW}),
        (schema.versions, employed | {"kind": "guessed"}),
        (schema.requests, request),  # the same key
        (schema.requests, request | {"key": "l", "state": "applied"}),  # applied at no time
        (schema.requests, request | {"key": "l", "state": "lost"}),
        (schema.items, {"request_id": 1, "kind": "row"}),  # neither an id nor an outcome
        (schema.items, {"request_id": 1, "kind": "x", "value": "1"}),
        (schema.items, {"request_id": 99, "kind": "row", "value": "1"}),
        (schema.forgotten, {"model_id": 1, "row": 1, "version_id": 99, "erased": False}),
        (
            schema.decisions,
            {
                "model_id": 1,
                "version_id": 1,
                "at": NOW,
                "action": "open",
                "reason": "",
                "inputs": {},
            },
        ),  # a second one for a version
    ]
    for table, values in wrong:
        with pytest.raises(sa.exc.IntegrityError), store.database.writing() as connection:
            connection.execute(sa.insert(table).values(**values))


def test_a_key_is_used_once(store: Store) -> None:
    opened(store)
    first = store.requests.submit("k", [("row", "1"), ("row", "2")], NOW)
    assert store.requests.submit("k", [("row", "2"), ("row", "1")], NOW) == first
    with pytest.raises(BadInput, match="another request"):
        store.requests.submit("k", [("row", "1")], NOW)
    assert store.requests.counts() == {"pending": 1, "applied": 0, "unmatched": 0, "cancelled": 0}


def test_the_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    checks = {
        (table, c["name"])
        for table in schema.metadata.tables
        for c in sa.inspect(store.database.engine).get_check_constraints(table)
    }
    expected = {
        (table.name, str(c.name))
        for table in schema.metadata.tables.values()
        for c in table.constraints
        if isinstance(c, sa.CheckConstraint)
    }
    assert checks == expected


def test_many_ids_at_once(store: Store) -> None:
    opened(store)
    store.requests.submit("k", [("subject", str(i)) for i in range(12_000)], NOW)
    (request,) = store.requests.find()
    assert len(request.items) == 12_000
    digests = [("subject", store.digest("subject", str(i))) for i in range(12_000)]
    version = store.versions.active()
    store.commit(version, None, None, Applied(rows=range(12_000), digests=digests), NOW)
    assert len(store.forgotten.known_digests(digests)) == 12_000
    assert len(store.forgotten.rows()) == 12_000


def test_urls_that_cannot_be_used(tmp_path: Path) -> None:
    for url in ("nonsense", "mysql://x", "oracle://"):
        with pytest.raises(BadInput, match=r"store.url"):
            Store(url, "w", NOW, b"key")
    with pytest.raises(Unavailable, match="database says"):
        Store("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1", "w", NOW, b"key")


def test_artifacts_are_read_only_if_they_are_what_was_written(tmp_path: Path) -> None:
    import numpy as np

    artifacts = Artifacts(tmp_path / "a")
    arrays = {"w": np.arange(6.0).reshape(2, 3), "n": np.array(7), "b": np.array([True])}
    sha = artifacts.put_arrays(arrays)
    found = artifacts.arrays(sha)
    for name, value in arrays.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].shape == value.shape
    card = artifacts.put_json({"ü": [1, None]})
    assert artifacts.json(card) == {"ü": [1, None]}
    artifacts.keep({card})
    with pytest.raises(Damaged, match="missing"):
        artifacts.arrays(sha)
    path = tmp_path / "a" / f"{card}.json"
    path.write_text("{}")
    with pytest.raises(Damaged, match="not what unfit wrote"):
        artifacts.json(card)
