"""Records made by the first release are brought up to date: all of them, or nothing happens."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from store_records import NEW, NOW, OPENING

from tiers import mostly_slow
from unfit.store import migrations
from unfit.store.connections import open_engine
from unfit.store.records import Applied
from unfit.store.store import Store

MOMENT = "2030-01-02 03:04:05"

VERSION = {
    "model_id": 1,
    "kind": "'trained'",
    "method": "'fisher'",
    "employed_at": f"'{MOMENT}'",
    "rows": 10,
    "subjects": 5,
    "deleted": 0,
    "seconds": 1.5,
    "baseline": "'{}'",
}
RECORDS: list[tuple[str, dict[str, Any]]] = [
    (
        "models",
        {
            "id": 1,
            "key": "'w'",
            "created_at": f"'{MOMENT}'",
            "list_position": 7,
            "purge_due": "FALSE",
            "changes": 3,
        },
    ),
    (
        "models",
        {
            "id": 2,
            "key": "'other'",
            "created_at": f"'{MOMENT}'",
            "list_position": 0,
            "purge_due": "TRUE",
            "changes": 0,
        },
    ),
    (
        "versions",
        VERSION | {"id": 1, "number": 1, "state": "'superseded'", "superseded_at": f"'{MOMENT}'"},
    ),
    ("versions", VERSION | {"id": 2, "number": 2, "state": "'employed'", "model_sha": "'m'"}),
    (
        "requests",
        {
            "id": 1,
            "model_id": 1,
            "key": "'done'",
            "fingerprint": "'f'",
            "state": "'applied'",
            "submitted_at": f"'{MOMENT}'",
            "applied_at": f"'{MOMENT}'",
            "version_id": 2,
        },
    ),
    (
        "requests",
        {
            "id": 5,
            "model_id": 1,
            "key": "'waits'",
            "fingerprint": "'g'",
            "state": "'pending'",
            "submitted_at": f"'{MOMENT}'",
        },
    ),
    (
        "request_items",
        {"id": 1, "request_id": 1, "kind": "'subject'", "outcome": "'forgotten'", "rows": 2},
    ),
    ("request_items", {"id": 2, "request_id": 5, "kind": "'subject'", "value": "'anna'"}),
    (
        "requests",
        {
            "id": 4,
            "model_id": 1,
            "key": "'nobody'",
            "fingerprint": "'h'",
            "state": "'applied'",
            "submitted_at": f"'{MOMENT}'",
            "applied_at": f"'{MOMENT}'",
            "version_id": 2,
        },
    ),
    (
        "request_items",
        {"id": 3, "request_id": 4, "kind": "'subject'", "outcome": "'unknown'", "rows": 0},
    ),
    ("forgotten", {"model_id": 1, "row": 3, "version_id": 2, "erased": "TRUE"}),
    ("forgotten_ids", {"model_id": 1, "kind": "'subject'", "digest": "'d'"}),
    (
        "decisions",
        {
            "id": 1,
            "model_id": 1,
            "version_id": 2,
            "at": f"'{MOMENT}'",
            "action": "'employ'",
            "reason": "'r'",
            "inputs": "'{}'",
        },
    ),
    (
        "audits",
        {
            "id": 1,
            "model_id": 1,
            "version_id": 2,
            "at": f"'{MOMENT}'",
            "passed": "TRUE",
            "report": "'{}'",
        },
    ),
]


RENAMED = {"employed_at": "activated_at"}


@pytest.fixture
def old(url: str) -> Iterator[sa.Engine]:
    """A database with the first tables, and records."""
    engine = database_at(url, "0001")
    yield engine
    engine.dispose()


def database_at(url: str, revision: str) -> sa.Engine:
    engine = open_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.execution_options(write=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for table, values in RECORDS:
            names, said = ", ".join(values), ", ".join(str(v) for v in values.values())
            connection.execute(sa.text(f"INSERT INTO {table} ({names}) VALUES ({said})"))
        if engine.dialect.name == "postgresql":  # ids are given on from those there are
            for table in ("models", "versions", "requests", "request_items", "decisions"):
                connection.execute(
                    sa.text(f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))")
                )
    return engine


Content = dict[str, list[dict[str, Any]]]


def content(engine: sa.Engine) -> Content:
    """Every value of the first columns, under the names they had first."""
    found = {}
    with engine.connect() as connection:
        for table in dict.fromkeys(name for name, _ in RECORDS):
            columns = {n for name, values in RECORDS if name == table for n in values}
            here = {column["name"] for column in sa.inspect(connection).get_columns(table)}
            names = [n if n in here else f"{RENAMED[n]} AS {n}" for n in sorted(columns)]
            rows = connection.execute(
                sa.text(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2, 3")
            )
            found[table] = [dict(row._mapping) for row in rows]
    return found


def unmatched(before: Content) -> Content:
    """What is there after a request that matched nobody says so."""
    (nobody,) = [r for r in before["requests"] if r["id"] == 4]
    assert nobody["state"] == "applied"
    nobody["state"] = "unmatched"
    return before


def active(before: Content) -> Content:
    """What is there after the word for the version that answers has changed."""
    for version in before["versions"]:
        version["state"] = version["state"].replace("employed", "active")
    for decision in before["decisions"]:
        decision["action"] = decision["action"].replace("employ", "update")
    return before


def schema_of(engine: sa.Engine) -> dict[str, Any]:
    look = sa.inspect(engine)
    return {
        table: (
            [c["name"] for c in look.get_columns(table)],
            sorted(c["sqltext"] for c in look.get_check_constraints(table)),
            sorted(look.get_foreign_keys(table), key=lambda key: str(key["name"])),
            sorted(look.get_unique_constraints(table), key=lambda one: str(one["name"])),
            sorted(
                (str(i["name"]), i["column_names"], i["unique"]) for i in look.get_indexes(table)
            ),
        )
        for table in sorted(look.get_table_names())
    }


def test_nothing_is_lost(old: sa.Engine, url: str) -> None:
    before = content(old)
    assert [len(rows) for rows in before.values()] == [2, 2, 3, 3, 1, 1, 1, 1]
    assert not migrations.up_to_date(old)
    store = Store(url, "w", NOW, b"key")
    assert migrations.up_to_date(old)
    assert content(old) == active(unmatched(before))
    done, _, waits = store.requests.find()
    assert (done.id, done.state, done.version, done.applied_at) == (1, "applied", 2, NOW)
    assert (waits.id, waits.state, waits.cancelled_at, waits.submitted_by) == (
        5,
        "pending",
        None,
        None,
    )
    assert [i.value for i in waits.items] == ["anna"]
    model = store.model.read()
    assert (model.changes, model.access, model.list_position) == (3, 0, 7)
    assert store.requests.submit("new", [("row", "1")], NOW) == 6
    store.requests.cancel(5, NOW)
    assert store.requests.find(ids=[5])[0].state == "cancelled"
    store.close()


def test_a_database_of_the_first_release_has_an_active_version(url: str) -> None:
    engine = database_at(url, "0007")
    before = content(engine)
    store = Store(url, "w", NOW, b"key")
    assert content(engine) == active(before)
    versions = store.versions.find()
    assert [(v.number, v.state, v.activated_at) for v in versions] == [
        (1, "superseded", NOW),
        (2, "active", NOW),
    ]
    assert versions[-1] == store.versions.active()
    assert [(d.version, d.action) for d in store.decisions.find()] == [(2, "update")]
    assert schema_of(engine) == schema_of_new(url)
    wrong = [
        "UPDATE versions SET state = 'employed' WHERE id = 2",
        "UPDATE versions SET state = 'active', superseded_at = NULL WHERE id = 1",  # a second one
        "UPDATE decisions SET action = 'employ'",
        "UPDATE forgotten SET version_id = 99",
        "DELETE FROM versions WHERE id = 2",
    ]
    for statement in wrong:
        with pytest.raises(sa.exc.IntegrityError), store.database.writing() as connection:
            connection.execute(sa.text(statement))
    made = store.commit(store.versions.active(), NEW, replace(OPENING, version=3), Applied(), NOW)
    assert (made.id, made.number) == (3, 3)
    store.close()
    engine.dispose()


def test_zeros_that_nobody_measured_become_unknown(old: sa.Engine, url: str) -> None:
    zeros = dict.fromkeys(
        ("initial_accuracy", "accuracy", "acc_err_init", "slope", "estimate"), 0.0
    )
    with old.execution_options(write=True).begin() as connection:
        connection.execute(sa.text("DELETE FROM decisions"))
        for version, inputs in ((1, zeros | {"slope": 2.0}), (2, zeros)):
            connection.execute(
                sa.text(
                    "INSERT INTO decisions (model_id, version_id, at, action, reason, inputs, "
                    f"estimate) VALUES (1, {version}, '{MOMENT}', 'retrain', 'so', :inputs, 0.0)"
                ),
                {"inputs": json.dumps(inputs)},
            )
    store = Store(url, "w", NOW, b"key")
    measured, unknown = store.decisions.find()
    assert (measured.estimate, measured.inputs["accuracy"]) == (0.0, 0.0)
    assert unknown.estimate is None
    assert {unknown.inputs[name] for name in zeros} == {None}
    assert store.versions.find()[0].held_out is None  # not known of old records
    store.close()


def test_the_constraints_hold_and_foreign_keys_point_at_the_new_table(
    old: sa.Engine, url: str
) -> None:
    store = Store(url, "w", NOW, b"key")
    assert schema_of(store.database.engine) == schema_of_new(url)
    wrong = [
        "INSERT INTO request_items (request_id, kind, value) VALUES (99, 'row', '1')",
        "DELETE FROM requests WHERE id = 1",
        "UPDATE requests SET version_id = 99 WHERE id = 1",
        "UPDATE requests SET state = 'cancelled' WHERE id = 5",  # at no time
        "UPDATE requests SET cancelled_at = submitted_at WHERE id = 5",
        "UPDATE requests SET state = 'lost' WHERE id = 5",
        "UPDATE requests SET key = 'done' WHERE id = 5",
        "INSERT INTO sessions (hash, token_id, created_at, expires_at)"
        f" VALUES ('h', 9, '{MOMENT}', '{MOMENT}')",
        "UPDATE jobs SET audit_id = 9",
    ]
    with store.database.writing() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO jobs (model_id, kind, state, options, submitted_at)"
                f" VALUES (1, 'audit', 'pending', '{{}}', '{MOMENT}')"
            )
        )
    for statement in wrong:
        with pytest.raises(sa.exc.IntegrityError), store.database.writing() as connection:
            connection.execute(sa.text(statement))
    store.close()


def schema_of_new(url: str) -> dict[str, Any]:
    """A database made from nothing by this release, beside the old one."""
    if url.startswith("sqlite"):
        fresh = f"{url}.new"
    else:
        name = sa.engine.make_url(url).database
        fresh = url.replace(str(name), f"{name}_new")
        admin = sa.create_engine(
            url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
        )
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}_new")
        admin.dispose()
    store = Store(fresh, "w", NOW, b"key")
    found = schema_of(store.database.engine)
    store.close()
    return found


DYING = """
import os, signal, sys
from datetime import UTC, datetime
import sqlalchemy as sa
from unfit.store.store import Store

@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def die(connection, cursor, statement, *_):
    if statement.strip().startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

Store(sys.argv[1], "w", datetime(2030, 1, 2, tzinfo=UTC), b"key")
"""


@pytest.mark.parametrize(
    "at",
    mostly_slow(
        [
            "ALTER TABLE request_items",
            "CREATE TABLE tokens",
            "UPDATE versions SET state",
            "CREATE UNIQUE INDEX uq_versions_active",
            "UPDATE alembic_version SET version_num='0008'",
        ],
        quick=["ALTER TABLE request_items", "UPDATE alembic_version SET version_num='0008'"],
    ),
)
def test_a_migration_that_dies_on_the_way_leaves_the_old_tables(
    old: sa.Engine, url: str, at: str
) -> None:
    before, tables = content(old), schema_of(old)
    old.dispose()
    died = subprocess.run([sys.executable, "-c", DYING, url, at], timeout=120, check=False)
    assert died.returncode == -9
    assert content(old) == before
    assert schema_of(old) == tables
    assert not migrations.up_to_date(old)
    old.dispose()
    store = Store(url, "w", NOW, b"key")  # and can be done again
    assert len(store.requests.find()) == 3
    assert content(store.database.engine) == active(unmatched(before))
    store.close()


def test_records_that_do_not_fit_together_are_left_as_they_were(tmp_path: Path) -> None:
    """SQLite minds no foreign keys while a table is made anew, so they are looked through."""
    url = f"sqlite:///{tmp_path}/unfit.db"
    engine = open_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql(
            "INSERT INTO request_items (request_id, kind, value) VALUES (99, 'row', '1')"
        )
        connection.commit()
    engine.dispose()
    with pytest.raises(ValueError, match="do not fit together"):
        Store(url, "w", NOW, b"key")
    again = open_engine(url)
    assert not migrations.up_to_date(again)
    assert "tokens" not in sa.inspect(again).get_table_names()
    again.dispose()
