"""Clients that mean no good, and processes that are killed: the service goes on."""

import json
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from services import (
    Running,
    bearer,
    command_of,
    listening,
    lives,
    rows,
    served,
    token,
    until,
)
from workspaces import Kept

from unfit.service import middleware, protocol

MB = 1_000_000


def line(address: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(address)
    made.settimeout(30)
    return made


def answer(way: socket.socket) -> bytes:
    """All until the other end closes."""
    parts = []
    with suppress(ConnectionError):
        while part := way.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status(said: bytes) -> int:
    found = re.match(rb"HTTP/1.1 (\d+)", said)
    assert found, said[:200]
    return int(found[1])


def head(text: str, *more: str) -> bytes:
    """The first lines of a prediction, with the blank one still to come."""
    lines = [
        "POST /v1/predictions HTTP/1.1",
        "Host: unfit",
        f"Authorization: Bearer {text}",
        "Content-Type: application/json",
        *more,
    ]
    return "\r\n".join(lines).encode() + b"\r\n"


# --- patience that ends, with less of it --------------------------------------------------------


@pytest.fixture
def impatient(
    on_sqlite: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[tuple[str, int], str]]:
    """An address and a token; headers and bodies are waited for half a second."""
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)
    kept = on_sqlite.copy(tmp_path / "own")
    text = token(kept.folder, "predict")
    with listening(kept) as (host, port, _):
        yield (host, port), text
        made = httpx.post(
            f"http://{host}:{port}/v1/predictions", json={"rows": rows()}, headers=bearer(text)
        )
        assert made.status_code == 200  # whatever was done to it


def test_a_body_that_does_not_come_is_not_waited_for(
    impatient: tuple[tuple[str, int], str],
) -> None:
    address, text = impatient
    for start in (b"", b'{"rows"'):
        with line(address) as way:
            way.sendall(head(text, "Content-Length: 100") + b"\r\n" + start)
            said = answer(way)
        assert status(said) == 408
        assert b"application/problem+json" in said
        assert b"The body did not arrive within 0.5 seconds" in said


def test_a_body_that_drips_is_cut_however_steadily(impatient: tuple[tuple[str, int], str]) -> None:
    address, text = impatient
    with line(address) as way:
        way.sendall(head(text, "Content-Length: 1000") + b"\r\n")
        way.settimeout(0.05)
        said = b""
        for _ in range(400):
            with suppress(ConnectionError):
                way.send(b" ")
            with suppress(TimeoutError, ConnectionError):
                said += way.recv(65536)
            if said:
                break
        assert status(said) == 408


def test_headers_that_drip_are_cut(impatient: tuple[tuple[str, int], str]) -> None:
    address, text = impatient
    for start in (b"", b"GET / HTTP/1.1\r\n", head(text)):
        with line(address) as way:
            way.sendall(start)
            assert answer(way) == b""
    with line(address) as way:  # steadily too, and after a good request
        way.sendall(b"GET /health/live HTTP/1.1\r\nHost: unfit\r\n\r\n")
        assert status(way.recv(65536)) == 200
        with pytest.raises(ConnectionError):
            for _ in range(400):
                way.send(b"X: y\r\n")
                time.sleep(0.02)


def test_headers_without_end_are_cut(impatient: tuple[tuple[str, int], str]) -> None:
    address, text = impatient
    for more in (b"X-Long: " + b"x" * 4096, b"X: y\r\n" * 700):
        with line(address) as way:
            sent = way.send(head(text))
            with pytest.raises(ConnectionError):
                for _ in range(1000):
                    sent += way.send(more)
                    way.settimeout(0.001)  # what was read is acknowledged, or the line is cut
                    with suppress(TimeoutError):
                        if way.recv(65536) == b"":
                            raise ConnectionResetError
                    way.settimeout(30)
        assert sent < 10 * protocol.HEADER_BYTES


def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(
    impatient: tuple[tuple[str, int], str],
) -> None:
    """Answered before its body is there, as whoever has no token is."""
    address, _ = impatient
    with line(address) as way:
        way.sendall(head("garbage", "Content-Length: 100000") + b"\r\n{")
        assert status(way.recv(65536)) == 401
        with pytest.raises(ConnectionError):
            for _ in range(400):
                way.send(b" ")
                time.sleep(0.02)
    with line(address) as way:  # but one that does come leaves the line open for the next
        for _ in range(2):
            way.sendall(head("garbage", "Content-Length: 10") + b"\r\n" + b" " * 10)
            assert status(way.recv(65536)) == 401


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 100,
        b"\xff" * 5000,
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # who speaks TLS
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ],
    ids=range(11),
)
def test_garbage_is_refused(impatient: tuple[tuple[str, int], str], garbage: bytes) -> None:
    address, _ = impatient
    with line(address) as way:
        way.sendall(garbage)
        said = answer(way)
    assert said == b"" or status(said) >= 300
    assert b"Traceback" not in said


def test_requests_sent_at_once_are_answered_in_order(
    impatient: tuple[tuple[str, int], str],
) -> None:
    address, text = impatient
    one = b"GET /health/live HTTP/1.1\r\nHost: unfit\r\n"
    body = json.dumps({"rows": rows(1)}).encode()
    two = head(text, f"Content-Length: {len(body)}")
    with line(address) as way:
        way.sendall(
            (one + b"\r\n" + two + b"\r\n" + body) * 100 + one + b"Connection: close\r\n\r\n"
        )
        said = answer(way)
    assert said.count(b"HTTP/1.1 200 OK") == 201
    kinds = re.findall(rb'"status":"ok"|"predictions"', said)
    assert len(kinds) == 201
    assert all(a != b for a, b in pairwise(kinds))


def test_who_leaves_in_the_middle_does_no_harm(impatient: tuple[tuple[str, int], str]) -> None:
    address, text = impatient
    for start in (
        b"G",
        head(text),
        head(text, "Content-Length: 100") + b"\r\n{",
        head(text, "Transfer-Encoding: chunked") + b"\r\n5\r\n{",
    ):
        for _ in range(20):
            way = line(address)
            way.sendall(start)
            way.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # and a reset
            way.close()


# --- a whole service ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(on_sqlite: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    kept = on_sqlite.copy(tmp_path_factory.mktemp("hostile") / "w")
    with served(kept.folder) as made:
        yield made


def peak(pid: int) -> int:
    """The most memory a process has ever had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return 1024 * int(found[1])


def predicts(running: Running) -> None:
    with running.client as client:
        answer = client.post("/v1/predictions", json={"rows": rows()})
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("way", ["declared", "chunked"])
def test_a_hundred_megabytes_are_refused_and_not_kept(
    running: Running, way: str, known: bool
) -> None:
    predicts(running)
    (api,) = running.children("api")
    before, part = peak(api), b" " * MB
    framed = part if way == "declared" else b"%x\r\n%s\r\n" % (MB, part)
    size = "Content-Length: 100000000" if way == "declared" else "Transfer-Encoding: chunked"
    said, sent = b"", 0
    with line((running.host, running.port)) as wire:
        wire.sendall(head(running.token if known else "garbage", size) + b"\r\n")
        with suppress(ConnectionError):
            for _ in range(100):
                wire.sendall(framed)
                sent += MB
        said = answer(wire) if sent < 100 * MB else wire.recv(65536)
    if said:  # or the line was cut before it could be read
        assert status(said) == (413 if known or way == "declared" else 401)
    if known or way == "declared":
        assert sent < 50 * MB
    assert peak(api) - before < 40 * MB
    assert running.children("api") == [api]
    predicts(running)


@pytest.mark.slow
def test_what_is_declared_too_large_is_answered_before_it_is_sent(running: Running) -> None:
    with line((running.host, running.port)) as way:
        way.sendall(head(running.token, "Content-Length: 100000000") + b"\r\n")
        said = answer(way)
    assert status(said) == 413
    assert b"larger than 8 MB" in said


@pytest.mark.slow
def test_a_thousand_idle_connections_keep_nobody_out(running: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    (api,) = running.children("api")
    with ExitStack() as open_lines:
        for i in range(1000):
            way = open_lines.enter_context(line((running.host, running.port)))
            way.sendall((b"", b"POST /v1/predictions HTTP/1.1\r\nX: ")[i % 2])
        for _ in range(20):
            predicts(running)
    assert running.children("api") == [api]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_the_log_of_a_service_is_lines_of_json_without_secrets(running: Running) -> None:
    predicts(running)
    text = running.log.read_text()
    for written in text.splitlines():
        assert json.loads(written)["event"]
    assert running.token.split("_", 2)[2] not in text


# --- processes that die -------------------------------------------------------------------------


def file(running: Running, subject: str) -> int:
    """File an erasure until it is answered, as a client should."""

    def filed() -> int | None:
        try:
            with running.client as client:
                made = client.post(
                    "/v1/erasures",
                    json={"subjects": [subject]},
                    headers={"Idempotency-Key": f"key-{subject}"},
                )
        except httpx.TransportError:
            return None
        assert made.status_code in (202, 503), made.text
        return made.json().get("id")

    return until(filed, "an answer")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["api", "worker"])
def test_a_child_that_is_killed_is_started_again_and_erasures_are_applied_once(
    on_sqlite: Kept, tmp_path: Path, kind: str
) -> None:
    kept = on_sqlite.copy(tmp_path / "own")
    subjects = [f"p{i:04d}" for i in range(8)]
    with served(kept.folder) as running:
        ids = []
        for i, subject in enumerate(subjects):
            ids.append(file(running, subject))
            if i in (1, 5):
                (before,) = running.children(kind)
                os.kill(before, signal.SIGKILL)
                until(lambda old=before: running.children(kind) not in ([], [old]), "another one")
        assert len(set(ids)) == len(subjects)

        def settled() -> bool:
            with suppress(httpx.TransportError), running.client as client:
                return client.get("/v1/status").json().get("applied") == len(subjects)
            return False

        until(settled, "the erasures")
    with kept.open() as ws:
        said = {r.key: [i.outcome for i in r.items] for r in ws.store.requests.find()}
        gone = [row for row, _ in ws.store.forgotten.rows()]
        with ws.session() as session:
            dataset = session.dataset()
            assert dataset.n - int(dataset.live.sum()) == len(gone) == len(set(gone))
            assert all(dataset.subject_rows(s) is None for s in subjects)
    assert len(said) == len(subjects)
    assert all(outcomes in (["forgotten"], ["unknown"]) for outcomes in said.values())


def with_an_audit(running: Running) -> list[int]:
    """All its processes, among them one that does a job."""
    with running.client as client:
        client.post("/v1/audits", json={"draws": 100}).raise_for_status()

    def found() -> list[int] | None:
        family = running.family()
        return family if any("unfit.service.job" in command_of(pid) for pid in family) else None

    return until(found, "the job")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_told_to_stop_leaves_no_process(
    on_sqlite: Kept, tmp_path: Path, number: signal.Signals
) -> None:
    kept = on_sqlite.copy(tmp_path / "own")
    with served(kept.folder, "--processes", "2") as running:
        family = with_an_audit(running)
        assert len(family) >= 4  # two that answer, one that works, its job
        running.process.send_signal(number)
        assert running.process.wait(30) == 0
        assert not [pid for pid in family if lives(pid)]
    assert "Traceback" not in running.log.read_text()


@pytest.mark.slow
def test_a_service_whose_first_process_is_killed_leaves_no_process(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    kept = on_sqlite.copy(tmp_path / "own")
    with served(kept.folder) as running:
        family = with_an_audit(running)
        os.kill(running.process.pid, signal.SIGKILL)
        until(lambda: not [pid for pid in family if lives(pid)], "the end of its children")
    with served(kept.folder) as running, running.client as client:  # and can be started again
        assert client.get("/v1/audits/1").json()["state"] in ("pending", "running", "done")
