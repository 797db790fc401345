"""What the service promises, held against those who come at the wrong moment."""

import asyncio
import json
import threading
import time
import tracemalloc
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
import sqlalchemy as sa
from services import Service, bearer, serving, token, until, working
from workspaces import Kept, make

import people
import servers
from unfit.clock import now
from unfit.errors import Unavailable
from unfit.service.auth import COOKIE
from unfit.store.store import Store

ROW = {"age": 40.0, "income": 20.0, "member": True, "plan": "pro", "city": "c1"}


@pytest.mark.parametrize("declared", [True, False])
def test_a_question_whose_body_comes_late_is_answered_as_of_its_body(
    service: Service, declared: bool
) -> None:
    """Headers first; then somebody is forgotten; then the row."""
    content = b'{"rows": [' + _json(ROW) + b"]}"
    arrived, go_on = threading.Event(), threading.Event()

    async def body():
        arrived.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        yield content

    answers: list[httpx.Response] = []

    def ask() -> None:
        headers = {"Content-Type": "application/json"}
        if declared:
            headers["Content-Length"] = str(len(content))
        answers.append(service.post("/v1/predictions", content=body(), headers=headers))

    asking = threading.Thread(target=ask)
    asking.start()
    arrived.wait()
    with working(service.kept.folder):
        filed = service.post("/v1/erasures", json={"subjects": ["p0003"]}).json()["id"]
        done = _followed(service, filed)
    go_on.set()
    asking.join()
    assert answers[0].json()["version"] == done["version"]


def _json(row: dict[str, object]) -> bytes:
    return json.dumps(row).encode()


def _followed(service: Service, id: int) -> dict:
    return until(lambda: _in_force(service, id), "the erasure")


def _in_force(service: Service, id: int) -> dict | None:
    found = service.get(f"/v1/erasures/{id}").json()
    return found if found["in_force"] else None


def test_a_token_is_no_session_and_a_session_no_token(service: Service) -> None:
    text = token(service.kept.folder, "admin")
    access = service.workspace.store.tokens
    known = access.by_text(text)
    assert known is not None
    session = access.sign_in(known, now(), service.workspace.config.service.sign_in)
    assert service.get("/v1/status", headers=bearer(text)).status_code == 200
    assert service.get("/", headers={"Cookie": f"{COOKIE}={session}"}).status_code == 200
    assert service.get("/", headers={"Cookie": f"{COOKIE}={text}"}).status_code == 303
    assert service.get("/v1/status", headers=bearer(session)).status_code == 401


def test_a_compressed_stream_is_refused_before_it_is_unpacked(service: Service) -> None:
    table = pa.table({"age": pa.array([0.0] * 5_000_000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    assert len(body) < 100_000
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    before = pa.total_allocated_bytes()
    answer = service.post("/v1/predictions", content=body, headers=headers)
    assert answer.status_code == 422
    assert "compressed" in answer.json()["detail"]
    assert pa.total_allocated_bytes() - before < 10_000_000


def test_texts_that_grow_when_they_are_written_out_are_refused(service: Service) -> None:
    codes = pa.array([0] * 1_000, pa.int32())
    table = pa.table({"city": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000]))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = service.post("/v1/predictions", content=sink.getvalue().to_pybytes(), headers=headers)
    assert answer.status_code == 422
    assert "'city'" in answer.json()["detail"]


def bombs() -> dict[str, pa.Table | list[pa.RecordBatch]]:
    """Streams of few bytes and many rows."""
    n, names = 1_000_000, [f"c{i}" for i in range(10)]
    nulls = {name: pa.nulls(n) for name in names}
    empty = pa.record_batch({name: pa.nulls(0) for name in names})
    no_width = pa.array([b""], pa.binary(0)).take(pa.array([0] * 2_000, pa.int32()))
    many = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(n).cast(pa.int8()))
    return {
        "nulls": pa.table(nulls),
        "batches": [pa.record_batch({"a": pa.nulls(900)})] * 900,
        "empty batches": [empty] * 5_000,
        "values of no width": pa.table({"a": no_width}),
        "dictionary": pa.table({"a": many}),
    }


@pytest.mark.parametrize("name", bombs())
def test_a_stream_of_few_bytes_and_many_rows_is_refused_by_its_headers(
    shared: Service, name: str
) -> None:
    made = bombs()[name]
    batches = made.to_batches() if isinstance(made, pa.Table) else made
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    del made, batches, sink
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    pool, before = pa.default_memory_pool(), pa.total_allocated_bytes()
    tracemalloc.start()
    answer = shared.post("/v1/predictions", content=body, headers=headers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422, answer.text
    limits = ("the limit is 1,000", "more than 1,000 batches", "more than 100,000 entries")
    assert any(limit in answer.json()["detail"] for limit in limits)
    assert peak < 5_000_000 + 3 * len(body)
    assert pool.bytes_allocated() - before < 5_000_000


def test_who_is_on_the_deletion_list_cannot_be_cancelled(service: Service) -> None:
    """A backup from before an erasure: the person is asked for by the list, and stays asked for."""
    store = service.workspace.store
    id = store.requests.submit("restored-x", [("subject", "p0005")], now())
    assert service.delete(f"/v1/erasures/{id}").status_code == 409
    assert store.requests.find(ids=[id])[0].state == "pending"


def test_a_name_that_only_the_forgotten_held_leaves_the_running_api(
    trained: Kept, tmp_path: Path
) -> None:
    del trained
    table = people.people()
    cities = table["city"].to_pylist()
    alone = [i for i, who in enumerate(table["person"].to_pylist()) if who == "p0003"]
    for i in alone:
        cities[i] = "Lonely Hollow"
    at = table.column_names.index("city")
    kept = make(tmp_path / "w", None, table=table.set_column(at, "city", pa.array(cities)))
    with serving(kept) as service:
        predictors = service.app.state.context.predictors

        def names() -> str:
            seen = service.loop.call(service.app.state.context.changes.read)
            return str(service.loop.call(predictors.get, seen).model.card.to_json())

        assert "Lonely Hollow" in names()
        with working(kept.folder):
            filed = service.post("/v1/erasures", json={"subjects": ["p0003"]}).json()["id"]
            while not _in_force(service, filed):
                names()  # somebody asks all the time, also between commit and purge
            until(lambda: not service.workspace.store.model.read().purge_due, "the purge")
        assert "Lonely Hollow" not in names()


def test_erasures_go_on_while_somebody_reads_the_database(service: Service) -> None:
    """A backup, a shell: the purge waits for them, erasures do not."""
    database = service.workspace.store.database
    with working(service.kept.folder), database.engine.connect() as reader:
        options = {} if database.sqlite else {"isolation_level": "REPEATABLE READ"}
        connection = reader.execution_options(**options)
        if database.sqlite:
            connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT count(*) FROM request_items").all()
        started = time.monotonic()
        for person in ("p0003", "p0004"):
            filed = service.post("/v1/erasures", json={"subjects": [person]})
            assert filed.status_code == 202
            _followed(service, filed.json()["id"])
        assert time.monotonic() - started < 15
        assert service.workspace.store.model.read().purge_due
        connection.rollback()
        until(lambda: not service.workspace.store.model.read().purge_due, "the purge")


def test_an_id_that_an_old_snapshot_sees_is_not_said_to_be_gone(
    server: servers.Server, tmp_path: Path
) -> None:
    """On PostgreSQL; SQLite's checkpoint says itself that a reader is in the way."""
    with make(tmp_path / "w", server).open() as ws:
        _old_snapshot(ws.store)


def _old_snapshot(store: Store) -> None:
    with store.database.engine.connect() as old:
        old.execution_options(isolation_level="REPEATABLE READ")
        old.execute(sa.text("SELECT count(*) FROM models")).all()
        id = store.requests.submit("k", [("subject", "p0009")], now())
        store.requests.cancel(id, now())
        with pytest.raises(Unavailable, match="still sees"):
            store.purges.vacuum()
        old.rollback()
    store.purges.vacuum()


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    kept = make(tmp_path / "q#1 100%41?", None, copied=False)
    with serving(kept) as service:
        assert service.get("/v1/status").status_code == 200
        assert service.post("/v1/predictions", json={"rows": [ROW]}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health/ready"),
        ("POST", "/sign-in"),
        ("GET", "/"),
        ("GET", "/v1/status"),
        ("POST", "/v1/predictions"),
        ("GET", "/metrics"),
        ("GET", "/erasures/1/events"),
    ],
)
def test_a_stranger_is_not_told_what_the_database_says(
    service: Service, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """Whether they bring nothing or a token that cannot be looked up."""
    secret = "connection to server at db.internal.example, user anna failed"

    def fail(*_: object) -> None:
        raise Unavailable(f"the database says: {secret}")

    context = service.app.state.context
    monkeypatch.setattr(context.changes._counter, "read", fail)
    monkeypatch.setattr(context.changes, "_from_postgres", fail)
    monkeypatch.setattr(context.tokens, "by_text", fail)
    data = {"token": "unfit_x_y"} if path == "/sign-in" else None
    answer = service.ask(method, path, data=data, headers={"Authorization": "Bearer unfit_a_b"})
    assert answer.status_code == 503
    assert "internal" not in answer.text
    assert "anna" not in answer.text
    assert "Its log says why" in answer.text
    assert any(secret in line.get("trouble", "") for line in service.lines())
