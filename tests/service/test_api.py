"""Every endpoint on both databases: what it does, and what it says when it cannot."""

import io
import json
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
import services
from safetensors.numpy import load
from services import Service, bearer, edit, listening, rows, serving, token, until, working
from workspaces import Kept

import people
from unfit.clock import now
from unfit.data.encoding import Encoding
from unfit.data.objects import ObjectEncoder
from unfit.service import event_streams
from unfit.service.api.predictions import ARROW

JSON = {"Content-Type": "application/json"}
NASTY = [
    "<script>alert(1)</script>",
    "'; DROP TABLE requests; --",
    "p\u202e0001",
    "🦊",
    "%00",
    "%s",
]


def refused(answer: Any, status: int, *said: str) -> dict[str, Any]:
    """A problem of that status, as RFC 9457 has it, that says these words."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content = answer.json()
    assert set(content) - {"errors"} == {"type", "title", "status", "detail"}
    assert content["status"] == status
    for words in said:
        assert words in content["detail"]
    return content


def erase(service: Service, *subjects: object, key: str | None = None) -> dict[str, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = service.post("/v1/erasures", json={"subjects": subjects}, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()


def applied(service: Service, id: int) -> dict[str, Any]:
    def done() -> Any:
        found = service.get(f"/v1/erasures/{id}").json()
        return found if found["state"] in ("applied", "unmatched") else None

    return until(done, "the erasure")


def ended(service: Service, path: str) -> dict[str, Any]:
    def done() -> Any:
        found = service.get(path).json()
        return found if found["state"] in ("done", "failed") else None

    return until(done, path)


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


# --- predictions -------------------------------------------------------------------------------


def test_one_row_and_many_are_predicted_as_the_command_line_does(shared: Service) -> None:
    table = people.people()
    expected = shared.workspace.predict(table).table
    assert expected is not None
    many = shared.post("/v1/predictions", json={"rows": rows(400)}).json()
    assert many["version"] == 1
    assert [p["class"] for p in many["predictions"]] == expected["prediction"].to_pylist()
    for name in ("no", "yes"):
        said = [p["probabilities"][name] for p in many["predictions"]]
        np.testing.assert_allclose(said, expected[f"p_{name}"].to_numpy(), rtol=1e-12)
    one = shared.post("/v1/predictions", json={"rows": rows(1)})
    assert one.status_code == 200
    assert one.headers["content-type"] == "application/json"
    (alone,), among = one.json()["predictions"], many["predictions"][0]
    assert alone["class"] == among["class"]
    assert alone["probabilities"] == pytest.approx(among["probabilities"], rel=1e-6)  # float32
    more = [row | {"shoe size": 44} for row in rows(1)]  # what the model does not know is ignored
    assert shared.post("/v1/predictions", json={"rows": more}).json() == one.json()


def test_rows_with_a_category_without_a_column_are_counted(shared: Service) -> None:
    """The workspace of these tests gives every category a column, so none is too rare for one."""
    sent = [row | {"city": "Atlantis"} for row in rows(3)] + rows(2)
    answer = shared.post("/v1/predictions", json={"rows": sent}).json()
    assert (answer["rare"], answer["unseen"]) == (0, 3)
    table = pa.Table.from_pylist(sent)
    headers = {"Content-Type": ARROW}
    answer = shared.post("/v1/predictions", content=stream(table), headers=headers).json()
    assert (answer["rare"], answer["unseen"]) == (0, 3)


def test_the_model_says_how_its_constants_were_come_by(shared: Service) -> None:
    told = shared.get("/v1/model").json()
    how = {column["name"]: column["constants"] for column in told["columns"]}
    assert how["age"]["scale"].startswith("fitted: the standard deviation of the training rows")
    assert how["member"]["fill"].startswith("fitted: ")
    assert told["norm"].startswith("none")


def test_arrow_comes_in_and_goes_out(shared: Service) -> None:
    table = people.people()
    as_json = shared.post("/v1/predictions", json={"rows": rows(400)}).json()
    headers = {"Content-Type": ARROW}
    answer = shared.post("/v1/predictions", content=stream(table), headers=headers)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == as_json
    answer = shared.post(
        "/v1/predictions", content=stream(table), headers=headers | {"Accept": ARROW}
    )
    assert answer.headers["content-type"] == ARROW
    with pa.ipc.open_stream(answer.content) as reader:
        told = reader.read_all()
    assert told["prediction"].to_pylist() == [p["class"] for p in as_json["predictions"]]
    assert set(told["version"].to_pylist()) == {1}


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b'{"rows": [{"age": NaN}]}', 400, "not valid JSON"),
        (b'{"rows": [{"age": -Infinity}]}', 400, "not valid JSON"),
        (b"[" * 100_000, 400, "not valid JSON"),
        (b'{"rows":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "not valid JSON"),
        (b"\xff\xfe", 400, "not valid JSON"),
        (b'"' + b"9" * 10 + b'"', 422, "at least one row"),
        (b"9" * 5000, 400, "not valid JSON"),
        (b"null", 422, "at least one row"),
        (b"{}", 422, "at least one row"),
        (b'{"rows": []}', 422, "at least one row"),
        (b'{"rows": {}}', 422, "at least one row"),
        (b'{"rows": [{}], "more": 1}', 422, "at least one row"),
        (b'{"rows": [1]}', 422, "Row 0 is not a JSON object"),
        (b'{"rows": [{}]}', 422, "Row 0 lacks the field 'age' and 4 more"),
        (b'{"rows": [' + b"{}," * 1000 + b"{}]}", 422, "1,001 rows; the limit is 1,000"),
    ],
    ids=range(17),
)
def test_bodies_that_cannot_be_predicted(
    shared: Service, content: bytes, status: int, said: str
) -> None:
    refused(shared.post("/v1/predictions", content=content, headers=JSON), status, said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"age": "old"}, "Row 1, field 'age': 'old' is not a number"),
        ({"age": [1]}, "Row 1, field 'age'"),
        ({"age": {"a": 1}}, "Row 1, field 'age'"),
        ({"age": 1e300}, "is not a usable number"),
        ({"member": "perhaps"}, "Row 1, field 'member': 'perhaps' is neither true nor false"),
        ({"plan": []}, "Row 1, field 'plan'"),
    ],
)
def test_rows_that_cannot_be_predicted_are_named(
    shared: Service, change: dict[str, Any], said: str
) -> None:
    sent = rows(2)
    sent[1] |= change
    refused(shared.post("/v1/predictions", json={"rows": sent}), 422, said)


def test_a_field_that_is_left_out_is_named_and_null_stands_for_it(shared: Service) -> None:
    sent = rows(3)
    del sent[2]["city"]
    answer = shared.post("/v1/predictions", json={"rows": sent})
    refused(answer, 422, "Row 2 lacks the field 'city'")
    sent[2]["city"] = None
    assert shared.post("/v1/predictions", json={"rows": sent}).status_code == 200


def test_kinds_of_body_that_are_not_taken(shared: Service) -> None:
    for kind in ("text/plain", "", "application/xml", "multipart/form-data"):
        answer = shared.post("/v1/predictions", content=b"{}", headers={"Content-Type": kind})
        refused(answer, 415, "application/json or application/vnd")
    for wrong in (b"", b"nonsense", stream(people.people())[:200], b"\xff\xff\xff\xff" + b"\0" * 9):
        answer = shared.post("/v1/predictions", content=wrong, headers={"Content-Type": ARROW})
        refused(answer, 400, "not a valid Arrow stream")
    table = people.people()
    for wrong, said in (
        (table.drop_columns(["age"]), "no column 'age'"),
        (table.slice(0, 0), "no rows"),
        (table.set_column(2, "age", pa.array(["x"] * 400)), "row 0, column 'age'"),
    ):
        answer = shared.post(
            "/v1/predictions", content=stream(wrong), headers={"Content-Type": ARROW}
        )
        refused(answer, 422, said)


def test_an_answer_after_an_erasure_is_of_the_model_that_forgot(service: Service) -> None:
    with working(service.kept.folder):
        before = service.post("/v1/predictions", json={"rows": rows()}).json()
        told = applied(service, erase(service, "p0003", "p0017", "p0020")["id"])
        after = service.post("/v1/predictions", json={"rows": rows()}).json()
    assert (before["version"], after["version"]) == (1, 2)
    assert told["version"] == 2
    assert after["predictions"] != before["predictions"]


# --- erasures ----------------------------------------------------------------------------------


def test_an_erasure_is_filed_applied_and_told(service: Service) -> None:
    answer = service.post(
        "/v1/erasures", json={"subjects": ["p0003", "nobody"], "rows": ["r00009"]}
    )
    assert answer.status_code == 202
    filed = answer.json()
    assert answer.headers["location"] == f"/v1/erasures/{filed['id']}"
    assert (filed["state"], filed["in_force"], filed["version"]) == ("pending", False, None)
    assert [i["outcome"] for i in filed["items"]] == [None] * 3
    with working(service.kept.folder):
        done = applied(service, filed["id"])
        again = applied(service, erase(service, "p0003")["id"])
    assert (done["in_force"], done["version"]) == (True, 2)
    assert [(i["kind"], i["outcome"]) for i in done["items"]] == [
        ("row", "forgotten"),
        ("subject", "unknown"),
        ("subject", "forgotten"),
    ]
    assert done["decision"]["action"] == "update"
    assert done["decision"]["version"] == 2
    assert [i["outcome"] for i in again["items"]] == ["repeated"]


def test_the_same_key_is_the_same_request(service: Service) -> None:
    first = erase(service, "p0003", "p0004", key="k-1")
    assert erase(service, "p0004", "p0003", key="k-1") == first
    other = service.post(
        "/v1/erasures", json={"subjects": ["p0003"]}, headers={"Idempotency-Key": "k-1"}
    )
    refused(other, 409, "used for another request")
    assert [e["id"] for e in service.get("/v1/erasures").json()["items"]] == [first["id"]]
    with working(service.kept.folder):
        applied(service, first["id"])
    repeated = erase(service, "p0003", "p0004", key="k-1")
    assert (repeated["id"], repeated["state"]) == (first["id"], "applied")
    for wrong in ("", "ä", "x" * 201, "a b", "\t"):
        answer = service.post(
            "/v1/erasures",
            json={"subjects": ["p1"]},
            headers={"Idempotency-Key": wrong.encode()},  # type: ignore[dict-item]
        )
        refused(answer, 422)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"subjects": []}, 422),
        ({"subjects": "p0001"}, 422),
        ({"subjects": [None]}, 422),
        ({"subjects": [True]}, 422),
        ({"subjects": [1.5]}, 422),
        ({"subjects": [[]]}, 422),
        ({"subjects": [""]}, 422),
        ({"subjects": ["a\0b"]}, 422),
        ({"subjects": ["x" * 513]}, 422),
        ({"subjects": [2**63]}, 422),
        ({"subjects": ["p1"], "reason": "x"}, 422),
        ([], 422),
        ({"subjects": ["p1"] * 10_001}, 422),
        ({"rows": {"a": 1}}, 422),
        (7, 422),
        ("p1", 422),
    ],
)
def test_erasures_that_cannot_be_filed(shared: Service, body: Any, status: int) -> None:
    content = refused(shared.post("/v1/erasures", json=body), status)
    assert len(json.dumps(content)) < 10_000  # however much was wrong
    assert shared.get("/v1/erasures").json()["items"] == []


def test_bodies_of_an_erasure_that_are_no_json(shared: Service) -> None:
    for content in (b"{", b"\xff", b"[" * 100_000, b'{"subjects": ["\\ud800"]}', b"9" * 5000):
        answer = shared.post("/v1/erasures", content=content, headers=JSON)
        assert answer.status_code in (400, 422)
        refused(answer, answer.status_code)
    for path in ("/v1/audits", "/v1/subjects/lookup"):
        answer = shared.post(path, content=b"[" * 100_000, headers=JSON)
        refused(answer, 400)
    refused(shared.post("/v1/audits", content=b'{"threshold": NaN}', headers=JSON), 422)
    refused(shared.post("/v1/audits", content=b'{"threshold": 1e999}', headers=JSON), 422)


def test_whatever_an_id_holds_is_an_id(service: Service) -> None:
    filed = erase(service, *NASTY, 7, -1)
    with working(service.kept.folder):
        done = applied(service, filed["id"])
    assert {i["outcome"] for i in done["items"]} == {"unknown"}
    for id in NASTY:
        found = service.post("/v1/subjects/lookup", json={"subject": id}).json()
        assert (found["state"], found["rows"]) == ("unknown", 0)
        assert [e["id"] for e in found["erasures"]] == [filed["id"]]


def test_erasures_are_listed_by_pages_and_state(service: Service) -> None:
    ids = [erase(service, f"p{i:04d}", key=f"k-{i}")["id"] for i in range(5)]
    service.delete(f"/v1/erasures/{ids[1]}")
    first = service.get("/v1/erasures?limit=2").json()
    assert [e["id"] for e in first["items"]] == [ids[4], ids[3]]
    second = service.get(f"/v1/erasures?limit=2&before={first['next']}").json()
    assert [e["id"] for e in second["items"]] == [ids[2], ids[1]]
    third = service.get(f"/v1/erasures?limit=2&before={second['next']}").json()
    assert ([e["id"] for e in third["items"]], third["next"]) == ([ids[0]], None)
    cancelled = service.get("/v1/erasures?state=cancelled").json()["items"]
    assert [e["id"] for e in cancelled] == [ids[1]]
    for wrong in (
        "limit=0",
        "limit=501",
        "limit=x",
        "before=0",
        "before=-1",
        "before=x",
        "state=lost",
        f"before={2**63}",
    ):
        refused(service.get(f"/v1/erasures?{wrong}"), 422)


@pytest.mark.parametrize(
    "path", ["/v1/erasures", "/v1/versions", "/v1/decisions", "/v1/audits", "/v1/retrainings"]
)
def test_pages_begin_anywhere(shared: Service, path: str) -> None:
    for before in (1, 2**31 - 1, 2**31, 2**63 - 1):
        answer = shared.get(f"{path}?before={before}")
        assert answer.status_code == 200, answer.text


def test_what_is_not_there(shared: Service) -> None:
    for path in (
        "/v1/erasures/{}",
        "/v1/erasures/{}/events",
        "/v1/versions/{}",
        "/v1/versions/{}/export",
        "/v1/audits/{}",
        "/v1/audits/{}/report",
        "/v1/retrainings/{}",
    ):
        for number in (99, 2**31 - 1, 2**31, 2**63 - 1):
            refused(shared.get(path.format(number)), 404)
        for number in (0, -1, 2**63, "x", "1.5", "%00", "1'--"):
            refused(shared.get(path.format(number)), 422)
    refused(shared.delete("/v1/erasures/99"), 404)
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/erasures/", "//v1/status", "/docs"):
        refused(shared.get(path), 404)
    for method, path in (("PUT", "/v1/erasures"), ("DELETE", "/v1/model"), ("HEAD", "/v1/status")):
        answer = shared.ask(method, path)
        assert answer.status_code == 405
        assert answer.headers["content-type"] == "application/problem+json"


def test_what_waits_can_be_cancelled_and_what_is_applied_not(service: Service) -> None:
    first, second = erase(service, "p0003"), erase(service, "p0004")
    answer = service.delete(f"/v1/erasures/{first['id']}")
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["items"]) == ("cancelled", [])
    refused(service.delete(f"/v1/erasures/{first['id']}"), 409, "it is no longer waiting")
    with working(service.kept.folder):
        applied(service, second["id"])
        until(lambda: not service.get("/v1/status").json()["purge_due"], "the purge")
    refused(service.delete(f"/v1/erasures/{second['id']}"), 409, "it is no longer waiting")
    assert service.post("/v1/subjects/lookup", json={"subject": "p0003"}).json() == {
        "state": "remembered",
        "rows": 3,
        "erasures": [],
        "near": [],
        "purged": None,
        "kept_for_audit_until": None,
    }
    counts = service.get("/v1/status").json()
    assert (counts["pending"], counts["applied"], counts["cancelled"]) == (0, 1, 1)


def test_an_erasure_can_be_followed_until_it_is_settled(service: Service) -> None:
    filed = erase(service, "p0003", "p0017", "p0020")
    with working(service.kept.folder):
        answer = service.get(f"/v1/erasures/{filed['id']}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    told = [event.split("\n") for event in answer.text.strip().split("\n\n")]
    assert [e[0] for e in told] == ["event: state"] * 2
    states = [json.loads(e[2].removeprefix("data: ")) for e in told]
    assert [s["state"] for s in states] == ["pending", "applied"]
    found = service.get(f"/v1/erasures/{filed['id']}").json()
    assert (states[-1]["ids"], states[-1]["forgotten"], states[-1]["items"]) == (3, 3, None)
    later = {"items": found["items"], "purged": found["purged"]}  # bytes go a moment after
    assert states[-1] | later == found
    settled = service.get(f"/v1/erasures/{filed['id']}/events")
    assert settled.text.count("event: state") == 1
    assert len(service.app.state.event_streams) == 0


def test_so_many_may_follow(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    filed = erase(service, "p0003")
    monkeypatch.setattr(event_streams, "MAX_STREAMS", 0)
    answer = service.get(f"/v1/erasures/{filed['id']}/events")
    refused(answer, 429, "Too many erasures are being followed")


def test_one_token_follows_so_many_and_they_cost_one_asking(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    """Many streams on an erasure are one question at a time, and end when the token is revoked."""
    kept = on_sqlite.copy(tmp_path / "own")
    mine, other = token(kept.folder, "erase"), token(kept.folder, "audit")
    with kept.open() as ws, listening(kept) as (host, port, app):
        ws.submit(subjects=["p0003"], key="k")
        asked: list[list[int]] = []
        followed = app.state.event_streams
        read = followed._read_states
        followed._read_states = lambda ids: asked.append(list(ids)) or read(ids)
        address = f"http://{host}:{port}/v1/erasures/1/events"
        with httpx.Client(timeout=60) as client, ExitStack() as streams:

            def follow(text: str) -> httpx.Response:
                way = client.stream("GET", address, headers=bearer(text))
                return streams.enter_context(way)

            mine_open = [follow(mine) for _ in range(event_streams.MAX_STREAMS_PER_TOKEN)]
            assert {stream.status_code for stream in mine_open} == {200}
            refused_one = follow(mine)
            assert refused_one.status_code == 429
            assert refused_one.headers["content-type"] == "application/problem+json"
            assert follow(other).status_code == 200  # others are not kept out
            until(lambda: len(asked) >= 3, "some questions")
            assert all(ids == [1] for ids in asked)
            ws.store.tokens.revoke(mine.split("_")[1], now())
            for stream in mine_open:  # each comes to its end, though the erasure still waits
                assert stream.read().count(b"event: state") == 1
            until(lambda: len(followed) == 1, "their end")


def test_a_person_is_looked_up(service: Service) -> None:
    def look(subject: object) -> tuple[str, int, int]:
        answer = service.post("/v1/subjects/lookup", json={"subject": subject})
        found = answer.json()
        return found["state"], found["rows"], len(found["erasures"])

    assert look("p0003") == ("remembered", 3, 0)
    assert look("nobody") == ("unknown", 0, 0)
    assert look(5) == ("unknown", 0, 0)
    assert look("a\0b") == ("unknown", 0, 0)
    filed = erase(service, "p0003")
    assert look("p0003") == ("waiting", 3, 1)
    with working(service.kept.folder):
        applied(service, filed["id"])
        until(lambda: not service.get("/v1/status").json()["purge_due"], "the purge")
    assert look("p0003") == ("forgotten", 0, 1)
    for wrong in ({}, {"subject": None}, {"subject": ""}, {"subject": "x" * 513}, {"subject": []}):
        refused(service.post("/v1/subjects/lookup", json=wrong), 422)


def test_a_full_queue_is_said_and_when_to_come_again(trained: Kept, kept: Kept) -> None:
    with serving(edit(kept, ("queue = 1000 ", "queue = 2 "))) as service:
        first = erase(service, "p0003", key="k-1")
        erase(service, "p0004")
        answer = service.post("/v1/erasures", json={"subjects": ["p0005"]})
        refused(answer, 429, "2 requests wait")
        assert int(answer.headers["retry-after"]) >= 1
        assert erase(service, "p0003", key="k-1") == first
        with working(service.kept.folder):
            applied(service, first["id"])
        erase(service, "p0005")


def test_so_many_jobs_may_wait(service: Service) -> None:
    for _ in range(20):
        assert service.post("/v1/audits", json={}).status_code == 202
    for path in ("/v1/audits", "/v1/retrainings"):
        answer = service.post(path, json={})
        refused(answer, 429, "20 jobs wait")
        assert "retry-after" in answer.headers


# --- the model ---------------------------------------------------------------------------------


def test_the_model_its_versions_and_decisions(service: Service) -> None:
    model = service.get("/v1/model").json()
    assert (model["label"], model["classes"]) == ("label", ["no", "yes"])
    assert [(c["name"], c["kind"]) for c in model["columns"]] == [
        ("age", "numeric"),
        ("income", "numeric"),
        ("member", "boolean"),
        ("plan", "category"),
        ("city", "category"),
    ]
    with working(service.kept.folder):
        for who in (["p0003", "p0017"], ["p0020", "p0021", "p0004"]):
            applied(service, erase(service, *who)["id"])
    versions = service.get("/v1/versions").json()["items"]
    assert [(v["version"], v["state"], v["kind"]) for v in versions] == [
        (3, "active", "updated"),
        (2, "superseded", "updated"),
        (1, "superseded", "trained"),
    ]
    assert service.get("/v1/versions/2").json() == versions[1]
    assert service.get("/v1/model").json()["version"] == versions[0]
    page = service.get("/v1/versions?limit=2").json()
    assert page["next"] == 2
    assert service.get("/v1/versions?limit=2&before=2").json()["items"] == versions[2:]
    decisions = service.get("/v1/decisions").json()["items"]
    assert [(d["version"], d["action"]) for d in decisions] == [
        (3, "update"),
        (2, "update"),
        (1, "open"),
    ]
    assert service.get("/v1/decisions?limit=1&before=3").json() == {
        "items": decisions[1:2],
        "next": 2,
    }
    status = service.get("/v1/status").json()
    assert (status["version"], status["applied"], status["pending"]) == (3, 2, 0)
    assert status["forgotten_subjects"] == 5
    assert status["remembered"] == versions[0]["subjects"]


def test_an_export_can_be_read_and_predicts_alike(service: Service) -> None:
    with working(service.kept.folder):
        applied(service, erase(service, "p0003", "p0017", "p0020")["id"])
        until(lambda: not service.get("/v1/status").json()["purge_due"], "the purge")
    answer = service.get("/v1/versions/2/export")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="unfit-2.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        assert file.testzip() is None
        weights = load(file.read("model.safetensors"))["weights"]
        card = json.loads(file.read("card.json"))
        assert "version 2" in file.read("README.txt").decode()
    assert card["version"] == 2
    X, _ = ObjectEncoder(Encoding.from_json(card["encoding"])).encode(rows(20))
    if card["fit_intercept"]:
        X = np.column_stack([X, np.ones(len(X))])
    scores = X @ weights[0]
    told = service.post("/v1/predictions", json={"rows": rows(20)}).json()["predictions"]
    said = [p["probabilities"][card["classes"][1]] for p in told]
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), said, rtol=1e-6)
    assert [p["class"] for p in told] == [card["classes"][int(s > 0)] for s in scores]
    refused(service.get("/v1/versions/1/export"), 404, "version 2 is active")


def test_an_export_holds_no_category_that_only_the_forgotten_had(kept: Kept) -> None:
    with serving(kept) as service:
        assert service.get("/v1/versions/1/export").status_code == 200
        table = people.people().to_pandas()
        city = "c3"
        gone = sorted(set(table.loc[table["city"] == city, "person"]))
        with working(kept.folder):
            filed = erase(service, *gone)
            applied(service, filed["id"])
            until(lambda: not service.get("/v1/status").json()["purge_due"], "the purge")
            number = service.get("/v1/status").json()["version"]
        answer = service.get(f"/v1/versions/{number}/export")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
            assert f'"{city}"' not in file.read("card.json").decode()


# --- long work ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_audit_and_a_retraining_are_done_by_a_worker(service: Service) -> None:
    attack = {"attack": True, "splits": 16, "targets": 1}
    asked = service.post("/v1/audits", json={"draws": 1, "threshold": 40} | attack)
    assert asked.status_code == 202
    audit, where = asked.json(), asked.headers["location"]
    assert where == f"/v1/audits/{audit['id']}"
    assert (audit["state"], audit["report"]) == ("pending", None)
    refused(service.get(f"{where}/report"), 409, "not finished")
    answer = service.post("/v1/retrainings")
    assert answer.status_code == 202
    there = answer.headers["location"]
    refused(service.get(f"/v1/retrainings/{audit['id']}"), 404)
    refused(service.get(f"/v1/audits/{answer.json()['id']}"), 404)
    with working(service.kept.folder):
        audited, retrained = ended(service, where), ended(service, there)
    assert (audited["state"], audited["version"], audited["passed"]) == ("done", 1, True)
    assert audited["report"]["threshold"] == 40
    assert audited["report"]["attack"]["shadow"]["splits"] == 16
    assert audited["verdict"]
    assert (retrained["state"], retrained["version"]) == ("done", 2)
    assert service.get("/v1/versions/2").json()["kind"] == "retrained"
    page = service.get(f"{where}/report")
    assert page.headers["content-type"].startswith("text/html")
    assert "<svg" in page.text
    assert "<h2>Attack</h2>" in page.text
    assert "http://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    assert [a["id"] for a in service.get("/v1/audits").json()["items"]] == [audit["id"]]
    assert service.get("/v1/retrainings").json()["items"] == [retrained]
    assert service.get(f"/v1/retrainings?before={retrained['id']}").json()["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"draws": 0},
        {"draws": 101},
        {"threshold": -1},
        {"threshold": 201},
        {"deleted": "/etc/passwd"},
        {"draws": "x"},
        {"draws": 1.5},
        {"attack": True, "splits": 18},
        {"attack": True, "targets": 0},
        [],
        None,
    ],
)
def test_audits_that_cannot_be_asked_for(shared: Service, body: Any) -> None:
    refused(shared.post("/v1/audits", json=body), 422)
    assert shared.get("/v1/audits").json()["items"] == []


# --- who asks ----------------------------------------------------------------------------------


def test_a_revoked_token_is_refused_at_once(service: Service) -> None:
    text = services.token(service.kept.folder, "predict")
    for _ in range(2):  # the second time it is remembered
        answer = service.post("/v1/predictions", json={"rows": rows()}, headers=bearer(text))
        assert answer.status_code == 200
    with service.kept.open() as elsewhere:
        elsewhere.store.tokens.revoke(text.split("_")[1], now())
    answer = service.post("/v1/predictions", json={"rows": rows()}, headers=bearer(text))
    refused(answer, 401, "A valid token is required")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert service.get("/v1/status").status_code == 200


def test_who_is_revoked_while_the_gate_looks_is_not_remembered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token was good when it was read; by the time it is remembered it is not."""
    text = services.token(service.kept.folder, "predict")
    access = service.app.state.context.tokens
    read = access.by_text

    def slow(given: str) -> Any:
        found = read(given)
        if given == text:
            monkeypatch.setattr(access, "by_text", read)
            with service.kept.open() as elsewhere:
                elsewhere.store.tokens.revoke(text.split("_")[1], now())
            assert service.get("/v1/status").status_code == 200  # others are admitted meanwhile
        return found

    monkeypatch.setattr(access, "by_text", slow)
    for _ in range(2):
        answer = service.post("/v1/predictions", json={"rows": rows()}, headers=bearer(text))
    refused(answer, 401)


def test_a_token_may_ask_so_often(kept: Kept) -> None:
    with serving(edit(kept, ("rate = 5000.0", "rate = 0.5   "))) as service:
        assert service.get("/v1/status").status_code == 200
        answer = service.get("/v1/status")
        refused(answer, 429, "0.5 requests per second")
        assert int(answer.headers["retry-after"]) >= 1
        other = bearer(services.token(kept.folder, "operate"))
        assert service.get("/v1/status", headers=other).status_code == 200
        assert service.get("/health/live").status_code == 200


# --- who watches -------------------------------------------------------------------------------


def test_health_and_metrics(service: Service) -> None:
    assert service.client is not None
    nobody = {"Authorization": ""}
    assert service.get("/health/live", headers=nobody).json() == {"status": "ok"}
    ready = service.get("/health/ready", headers=nobody).json()
    assert ready == {"status": "ready", "version": 1, "worker": False}
    with working(service.kept.folder):
        until(lambda: service.get("/health/ready").json()["worker"], "the worker")
        filed = erase(service, "p0003")
        applied(service, filed["id"])
        service.post("/v1/predictions", json={"rows": rows(7)})
        service.get("/v1/status", headers=nobody)
        told = service.get("/metrics")
        assert told.headers["content-type"].startswith("text/plain")
        lines = dict(
            line.rsplit(" ", 1) for line in told.text.splitlines() if not line.startswith("#")
        )
    assert float(lines["unfit_predictions_total"]) == 7
    assert float(lines["unfit_applied"]) == 1
    assert float(lines["unfit_worker"]) == 1
    assert float(lines['unfit_denied_total{status="401"}']) == 1
    asked = 'unfit_requests_total{method="POST",route="/v1/erasures",status="202"}'
    assert float(lines[asked]) == 1
    assert "p0003" not in told.text
    until(lambda: not service.get("/v1/status").json()["worker"], "its end")


def test_a_workspace_without_a_model_is_not_ready(database: Any, tmp_path: Any) -> None:
    from workspaces import make

    kept = make(tmp_path / "w", database, trained=False)
    with serving(kept) as service:
        assert service.get("/health/live").status_code == 200
        for answer in (
            service.get("/health/ready"),
            service.get("/v1/model"),
            service.post("/v1/predictions", json={"rows": rows()}),
            service.post("/v1/erasures", json={"subjects": ["p1"]}),
            service.get("/v1/versions/1/export"),
        ):
            refused(answer, 503, "no model yet")
            assert "retry-after" in answer.headers
        assert service.get("/v1/status").json()["version"] is None
        assert service.get("/metrics").status_code == 200


def test_the_schema_is_public_and_says_who_needs_a_token(shared: Service) -> None:
    schema = shared.get("/openapi.json", headers={"Authorization": ""}).json()
    assert schema["paths"]["/v1/predictions"]["post"]["security"] == [{"token": []}]
    assert "security" not in schema["paths"]["/health/live"]["get"]


def test_every_answer_has_its_headers_and_a_line_in_the_log(service: Service) -> None:
    for answer in (
        service.get("/health/live"),
        service.get("/v1/status"),
        service.get("/nothing"),
        service.get("/v1/status", headers={"Authorization": "Bearer x"}),
        service.post("/v1/erasures", json={}),
        service.post("/v1/predictions", content=b"x", headers={"Content-Length": "999999999"}),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        (line,) = [
            line for line in service.lines() if line["request"] == answer.headers["x-request-id"]
        ]
        assert line["status"] == answer.status_code
    said = [(line["route"], line["status"], line["access"]) for line in service.lines()]
    assert said == [
        ("/health/live", 200, "public"),
        ("/v1/status", 200, "granted"),
        ("(none)", 404, "none"),
        ("/v1/status", 401, "denied"),
        ("/v1/erasures", 422, "granted"),
        ("(none)", 413, "none"),
    ]


def test_what_breaks_is_logged_by_its_kind_and_said_without_its_words(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("p0003 has a secret")

    monkeypatch.setattr(service.workspace.store.requests, "counts", broken)
    answer = service.get("/v1/status")
    refused(answer, 500, "The log of the service says more")
    assert "secret" not in answer.text + service.written.getvalue()
    assert service.lines()[-1]["failure"].startswith("RuntimeError in broken (test_api.py:")


def test_no_id_of_a_person_is_in_the_log_or_in_an_answer(kept: Kept) -> None:
    ids = ["p0003", "p0017", "p0020", "<i>eve</i>", "r00009", "zoë"]
    said: list[str] = []

    with serving(kept) as service:

        def note(answer: Any) -> Any:
            said.append(answer.text + str(answer.headers))
            return answer

        with working(kept.folder) as at_work:
            filed = note(
                service.post(
                    "/v1/erasures", json={"subjects": [*ids[:4], ids[5]], "rows": [ids[4]]}
                )
            ).json()
            applied(service, filed["id"])
            note(service.get(f"/v1/erasures/{filed['id']}"))
            note(service.get(f"/v1/erasures/{filed['id']}/events"))
            note(service.get("/v1/erasures"))
            for id in ids:
                note(service.post("/v1/subjects/lookup", json={"subject": id}))
                note(service.post("/v1/erasures", json={"subjects": [id, None]}))
                note(service.post("/v1/erasures", json={"subjects": id}))
                note(service.post("/v1/subjects/lookup", json={"subject": [id]}))
                note(service.get(f"/v1/erasures/{id.replace('/', '')}"))
                note(service.get("/v1/erasures", params={"state": id, "before": id}))
                note(service.get("/nothing", params={"subject": id}))
            audit = note(service.post("/v1/audits", json={"draws": 1})).headers["location"]
            ended(service, audit)
            for path in (
                audit,
                f"{audit}/report",
                "/v1/decisions",
                "/v1/status",
                "/metrics",
                "/v1/versions",
                "/v1/model",
            ):
                note(service.get(path))
        logs = service.written.getvalue() + at_work.written.getvalue()
    assert len(said) > 50
    for id in ids:
        assert id not in logs
        for text in said:
            assert id not in text
            assert json.dumps(id)[1:-1] not in text
