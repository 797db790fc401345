"""Certificates over the API and the dashboard: to whom they are given, and what nobody gets."""

import io
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from certified import (
    check_export,
    check_log,
    edit,
    held_out_people,
    make_certified,
    opened,
    secrets_of,
    trained_people,
)
from services import Service, bearer, rows, serving, start, token, until, working
from workspaces import Kept

import servers
from unfit.certify.verify import (
    commitment,
    open_checkpoint,
    open_envelope,
    parse_annex,
    parse_statement,
    read_bundle,
    verify_consistency,
)
from unfit.clock import now
from unfit.service.app import guarded_routes
from unfit.service.auth import COOKIE, PUBLIC, Principal
from unfit.store.schema import certificates as table

PLANTED = {"distance": "0.000123456789123", "mu": "0.0987654321987"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, database: servers.Server | None) -> Kept:
    """Three erasures: of two people, of one who was held out, and of one more; and one that waits
    for the worker."""
    kept = make_certified(tmp_path_factory.mktemp("certified") / "w", database)
    with kept.open() as ws:
        everybody = trained_people(ws)
        ws.forget(subjects=everybody[:2], key="first")
        ws.forget(subjects=held_out_people(ws)[:1], key="second")
        ws.forget(subjects=everybody[2:3], key="third")
        ws.submit(subjects=everybody[3:4], key="fourth")
    return kept


@pytest.fixture
def service(original: Kept, tmp_path: Path) -> Iterator[Service]:
    with serving(original.copy(tmp_path / "own")) as made:
        yield made


@pytest.fixture(scope="module")
def shared(original: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """For tests that change nothing."""
    with serving(original.copy(tmp_path_factory.mktemp("shared") / "w")) as made:
        yield made


@pytest.fixture
def plain(on_sqlite: Kept, tmp_path: Path) -> Iterator[Service]:
    """Without certificates."""
    with serving(on_sqlite.copy(tmp_path / "plain")) as made:
        yield made


class Visitor:
    """Somebody who has signed in to the dashboard."""

    def __init__(self, service: Service, *roles: str) -> None:
        access = service.workspace.store.tokens
        found = access.by_text(token(service.kept.folder, *roles))
        assert found is not None
        self._service, self._session = service, access.sign_in(found, now(), timedelta(hours=1))
        self.csrf = Principal(found, self._session).csrf

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Cookie": f"{COOKIE}={self._session}"}
        send = self._service.client.request
        return self._service.loop.call(lambda: send(method, path, headers=headers, **options))

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)

    def post(self, path: str, **data: str) -> httpx.Response:
        return self.ask("POST", path, data={"csrf": self.csrf} | data)


# --- the API -------------------------------------------------------------------------------------


def test_a_certificate_is_answered_byte_for_byte(shared: Service) -> None:
    certificates = shared.workspace.certificates
    for id, number, version in ((1, 1, 2), (2, 2, 2), (3, 3, 3)):
        answer = shared.get(f"/v1/erasures/{id}/certificate")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        (record,) = shared.workspace.store.certificates.find(number=number)
        assert answer.content == certificates.bundle(record)
        assert shared.get(f"/v1/certificates/{number}").content == answer.content
        payload = open_envelope(
            read_bundle(answer.content).certificate, certificates.public_keys()
        ).payload
        assert parse_statement(payload)[0].version == version
    newest = shared.get("/v1/versions/2/certificate").content
    assert newest == shared.get("/v1/erasures/2/certificate").content


def test_certificates_are_listed_newest_first_and_found_by_the_key_of_an_erasure(
    shared: Service,
) -> None:
    first = shared.get("/v1/certificates", params={"limit": 3}).json()
    assert [one["number"] for one in first["items"]] == [3, 2, 1]
    rest = shared.get("/v1/certificates", params={"before": first["next"]}).json()
    assert [one["kind"] for one in rest["items"]] == ["trained"]
    assert rest["next"] is None
    assert first["items"][0]["epsilon"] == 1.0
    (found,) = shared.get("/v1/certificates", params={"key": "second"}).json()["items"]
    assert (found["number"], found["kind"], found["signed"]) == (2, "kept", True)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/erasures/4/certificate", 404, "The erasure 'fourth' has no certificate: it is pendi"),
        ("/v1/erasures/99/certificate", 404, "There is no erasure 99."),
        ("/v1/versions/99/certificate", 404, "There is no version 99."),
        ("/v1/certificates/99", 404, "There is no certificate 99."),
        ("/v1/certificates?key=nobody", 404, "There is no erasure with the key 'nobody'."),
        ("/v1/certificates/1?since=nonsense", 422, "checkpoint"),
    ],
)
def test_what_is_not_there_is_said(shared: Service, path: str, status: int, words: str) -> None:
    answer = shared.get(path)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


def test_the_annex_is_for_auditors(shared: Service) -> None:
    path = "/v1/erasures/1/certificate?annex=true"
    for role in ("erase", "operate"):
        answer = shared.get(path, headers=bearer(token(shared.kept.folder, role)))
        assert answer.status_code == 403
        assert answer.json()["detail"] == "This token lacks the role 'audit'."
        assert shared.lines()[-1]["access"] == "denied"
    for role in ("audit", "admin"):
        answer = shared.get(path, headers=bearer(token(shared.kept.folder, role)))
        bundle = read_bundle(answer.content)
        assert bundle.annex is not None
        keys = shared.workspace.certificates.public_keys()
        annex = parse_annex(open_envelope(bundle.annex, keys).payload)
        (record,) = shared.workspace.store.certificates.find(number=1)
        assert annex == parse_annex((record.annex or "").encode())
    visitor = Visitor(shared, "erase")
    assert visitor.get("/certificates/1/file?annex=true").status_code == 403
    assert "annex" not in visitor.get("/erasures/1").text
    auditor = Visitor(shared, "audit")
    assert read_bundle(auditor.get("/certificates/1/file?annex=true").content).annex
    assert "Download with the annex" in auditor.get("/erasures/1").text


def test_the_log_and_its_growth_can_be_checked(service: Service) -> None:
    head = service.get("/v1/log").json()
    assert (head["entries"], head["waiting"], head["problem"]) == (4, 0, None)
    keys = service.workspace.certificates.public_keys()
    assert service.get("/v1/log/keys").json()["keys"] == [key.text for key in keys] == head["keys"]
    old = open_checkpoint(head["checkpoint"], keys)
    service.workspace.apply()
    grown = service.post("/v1/log/growth", json={"checkpoint": head["checkpoint"]}).json()
    new = open_checkpoint(grown["checkpoint"], keys)
    path = [bytes.fromhex(node) for node in grown["path"]]
    assert (grown["size"], new.size) == (4, 5)
    assert verify_consistency(old.size, new.size, old.root, new.root, path)
    since = service.get("/v1/certificates/4", params={"since": head["checkpoint"]})
    growth = read_bundle(since.content).consistency
    assert growth is not None
    assert (growth.size, growth.root, list(growth.path)) == (4, old.root, path)
    export = service.get("/v1/log/export")
    assert export.headers["content-type"].startswith("application/x-ndjson")
    assert export.content == b"".join(service.workspace.certificates.export())
    assert len(export.content.splitlines()) == 7
    check_log(service.workspace)
    answer = service.post("/v1/log/growth", json={"checkpoint": "nonsense"})
    assert answer.status_code == 422


def test_a_person_s_proof_is_handed_out_once(service: Service) -> None:
    who = trained_people(service.workspace)[0]  # who still waits to be forgotten
    erase = bearer(token(service.kept.folder, "erase"))
    for role in ("operate", "audit"):
        headers = bearer(token(service.kept.folder, role))
        assert service.post("/v1/erasures/1/proof", headers=headers).status_code == 403
    assert service.post("/v1/erasures/4/proof", headers=erase).status_code == 404
    answer = service.post("/v1/erasures/1/proof", headers=erase)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    proof = answer.json()
    assert proof["certificate"].encode() == service.get("/v1/erasures/1/certificate").content
    claim, _ = parse_statement(
        open_envelope(
            read_bundle(proof["certificate"].encode()).certificate,
            service.workspace.certificates.public_keys(),
        ).payload
    )
    assert len(proof["salts"]) == 2
    listed = service.workspace.deletions.read().ids
    for one in proof["salts"]:
        salt = bytes.fromhex(one["salt"])
        made = [commitment(salt, f"{kind}:{value}") for kind, value in listed]
        assert made.count(one["commitment"]) == 1
        assert commitment(salt, f"subject:{who}") != one["commitment"]
        assert one["commitment"] in claim.commitments
        assert one["salt"] not in service.written.getvalue()
    again = service.post("/v1/erasures/1/proof", headers=erase)
    assert again.status_code == 410
    assert "was handed out before" in again.json()["detail"]
    events = [line for line in service.lines() if line["event"] == "proof-handed-out"]
    assert [(line["erasure"], len(line["token"])) for line in events] == [(1, 8)]
    assert service.workspace.status().purge_due  # the worker removes the bytes
    with working(service.kept.folder):
        until(lambda: not service.workspace.store.model.read().purge_due, "the purge")
    for path in service.kept.folder.rglob("*"):
        for one in proof["salts"] if path.is_file() else ():
            assert one["salt"].encode() not in path.read_bytes(), path


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_what_waits_for_the_key_is_said_everywhere(
    service: Service, tmp_path: Path, how: str
) -> None:
    key = service.kept.folder / "signing.key"
    aside = shutil.copy(key, tmp_path / "aside")
    if how == "removed":
        key.unlink()
    else:
        key.write_bytes(key.read_bytes()[:60])
    service.workspace.apply()
    problem = service.workspace.status().certificates.problem
    assert problem is not None
    for path in ("/v1/erasures/4/certificate", "/v1/versions/4/certificate", "/v1/certificates/4"):
        answer = service.get(path)
        assert answer.status_code == 409
        assert problem in answer.json()["detail"]
    assert service.post("/v1/erasures/4/proof").status_code == 409
    assert service.get("/v1/erasures/1/certificate?annex=true").status_code == 409
    assert service.get("/v1/erasures/1/certificate").status_code == 200
    status = service.get("/v1/status").json()
    assert (status["certificates"], status["certificates_waiting"]) == (5, 1)
    assert status["certificates_problem"] == problem
    assert service.get("/v1/log").json()["problem"] == problem
    assert "unfit_certificates_waiting 1.0" in service.get("/metrics").text
    visitor = Visitor(service, "admin")
    assert "1 of 5 certificates waits for a signature" in visitor.get("/certificates").text
    with working(service.kept.folder):
        said = "1 certificate waits for a signature"
        until(lambda: said in visitor.get("/").text, "the sentence on the overview")
    page = visitor.get("/erasures/4").text
    assert "waits for a signature" in page
    assert "Hand out the proof" not in page
    assert visitor.get("/certificates/4/file").status_code == 409
    assert "none yet: the signing key is missing" in visitor.get("/certificates/4/page").text
    assert visitor.post("/erasures/4/proof", confirmed="yes").status_code == 409
    shutil.copy(aside, key)
    assert service.workspace.sign_certificates() == 1
    assert service.get("/v1/erasures/4/certificate").status_code == 200
    assert service.get("/v1/status").json()["certificates_problem"] is None
    assert service.post("/v1/erasures/4/proof").status_code == 200
    check_log(service.workspace)


def test_status_and_metrics_add_up(shared: Service) -> None:
    status, head = shared.get("/v1/status").json(), shared.get("/v1/log").json()
    newest = shared.get("/v1/certificates").json()["items"][0]
    for name in ("joint_mu", "joint_epsilon"):
        assert status[name] == head[name] == newest[name]
        assert f"unfit_{name} {newest[name]!r}" in shared.get("/metrics").text
    assert "unfit_certificates 4.0" in shared.get("/metrics").text
    assert newest["joint_epsilon"] > 1  # more than one release: more than each of them


def test_an_export_over_the_api_has_its_certificate(shared: Service) -> None:
    content = shared.get("/v1/versions/3/export").content
    assert content == shared.workspace.export()[1]
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        found = read_bundle(file.read("certificate.json"))
    assert found.annex is None
    check_export(shared.workspace)


def test_without_certificates_nothing_is_certified(plain: Service) -> None:
    plain.workspace.forget(subjects=["p0003"])
    assert plain.get("/v1/certificates").json() == {"items": [], "next": None}
    assert plain.get("/v1/erasures/1/certificate").status_code == 404
    assert plain.post("/v1/erasures/1/proof").status_code == 404
    assert plain.get("/v1/log/export").status_code == 409
    assert plain.get("/v1/log").json()["checkpoint"] is None
    status = plain.get("/v1/status").json()
    assert (status["certificates"], status["joint_mu"]) == (0, None)
    assert "unfit_joint_mu" not in plain.get("/metrics").text
    decision = plain.get("/v1/erasures/1").json()["decision"]
    assert decision["measured"] is False
    visitor = Visitor(plain, "admin")
    page = visitor.get("/certificates").text
    assert "set <code>epsilon = 1.0</code> under <code>[certify]</code> in unfit.toml" in page
    assert 'id="certificate"' not in visitor.get("/erasures/1").text
    assert "Estimated disparity" in visitor.get("/erasures/1").text


# --- what nobody gets ----------------------------------------------------------------------------


def _plant(service: Service) -> None:
    """Figures in the annexes that nothing else can be taken for."""
    store = service.workspace.store
    for record in store.certificates.find():
        if record.annex is not None:
            annex = json.dumps(
                json.loads(record.annex) | PLANTED, sort_keys=True, separators=(",", ":")
            )
            mine = table.c.number == record.number
            with store.database.writing() as connection:
                connection.execute(sa.update(table).where(mine).values(annex=annex))


def _answers(service: Service) -> Iterator[tuple[str, bytes]]:
    """Every route with what it answers, as admin."""
    bodies: dict[str, Any] = {
        "/v1/predictions": {"rows": rows(3)},
        "/v1/subjects/lookup": {"subject": "p0003"},
        "/v1/log/growth": {"checkpoint": service.get("/v1/log").json()["checkpoint"]},
        "/v1/erasures": {"subjects": ["p0099"]},
    }
    visitor = Visitor(service, "admin")
    for route in guarded_routes(service.app):
        (method,) = route.methods or ()
        if route.path.endswith("/events") or "sign" in route.path or route.rule == {PUBLIC}:
            continue
        id = "2" if method == "POST" else "1"
        path = route.path.replace("{id}", id).replace("{number}", "3")
        if route.by_cookie:
            sent = {"confirmed": "yes", "subject": "p0003", "ids": "p0098"}
            answer = visitor.get(path) if method == "GET" else visitor.post(path, **sent)
        else:
            answer = service.ask(method, path, json=bodies.get(route.path))
        yield f"{method} {route.path} {answer.status_code}", answer.content
    for id in (1, 2, 3):
        yield f"erasure {id}", visitor.get(f"/erasures/{id}").content
        yield f"certificate {id}", service.get(f"/v1/certificates/{id}").content


def test_no_route_answers_with_what_is_the_auditor_s_alone(service: Service) -> None:
    with working(service.kept.folder):  # an audit and its report are among the answers
        service.post("/v1/audits", json={})
        until(lambda: service.get("/v1/audits/1").json()["state"] == "done", "the audit")
    _plant(service)
    secrets = {name: set(ways) for name, ways in secrets_of(service.workspace).items()}
    secrets |= {name: {value.encode()} for name, value in PLANTED.items()}
    answered = list(_answers(service))
    assert sum(" 200" in name for name, _ in answered) > 30
    for name, content in answered:
        shown = opened(content)
        for what, ways in secrets.items():
            assert not [one for one in ways if one in shown], (name, what)
    annex = opened(service.get("/v1/certificates/3?annex=true").content)
    for what in ("centre_salt", "centre_sha256", *PLANTED):  # the search finds what is there
        assert [one for one in secrets[what] if one in annex], what


def test_the_figures_of_an_audit_are_for_auditors(service: Service) -> None:
    """They say how far the weights before noise are from a retraining's."""
    report = service.workspace.audit()
    with working(service.kept.folder):
        service.post("/v1/audits", json={})
        until(lambda: service.get("/v1/audits/1").json()["state"] == "done", "the audit")
    assert service.get("/v1/audits/1").json()["report"]["weight_distance"] > 0
    operator = bearer(token(service.kept.folder, "operate"))
    for path in ("/v1/audits/1", "/v1/audits"):
        found = service.get(path, headers=operator).json()
        found = found if "items" not in found else found["items"][0]
        assert found["outcome"] == report.outcome
        assert set(found["report"]) == {"outcome", "verdict"}
    assert service.get("/v1/audits/1/report", headers=operator).status_code == 403
    visitor, auditor = Visitor(service, "operate"), Visitor(service, "audit")
    for path in ("/audits/1", "/audits/1/panel", "/audits/1/report"):
        assert visitor.get(path).status_code == 403
        assert auditor.get(path).status_code == 200
    assert visitor.get("/audits").text.count("are for the role") == 2
    assert "are for the role" not in auditor.get("/audits").text


# --- the dashboard -------------------------------------------------------------------------------


def test_an_erasure_s_page_shows_its_certificate(shared: Service) -> None:
    page = Visitor(shared, "operate").get("/erasures/1").text
    assert "probabilities within a factor of 2.72 (e^epsilon) and an addend of 1e-05" in page
    assert "What is not claimed" in page
    assert "releases from before the deletion" in page
    assert 'href="/certificates/1/file"' in page
    assert 'href="/certificates/1/page"' in page
    assert "Measured disparity" in page
    assert "Hand out the proof" not in page  # that needs the role erase
    content = Visitor(shared, "operate").get("/certificates/1/file").content
    assert content == shared.get("/v1/erasures/1/certificate").content
    printed = Visitor(shared, "operate").get("/certificates/1/page").text
    assert "Certificate of forgetting" in printed
    assert "Your entry" not in printed
    pending = Visitor(shared, "operate").get("/erasures/4").text
    assert 'id="certificate"' not in pending


def test_the_proof_is_shown_once_behind_a_form(service: Service) -> None:
    visitor = Visitor(service, "erase")
    assert "Hand out the proof" in visitor.get("/erasures/1").text
    for wrong in (
        visitor.ask("POST", "/erasures/1/proof", data={"confirmed": "yes"}),
        visitor.ask("POST", "/erasures/1/proof", data={"confirmed": "yes", "csrf": "other"}),
    ):
        assert wrong.status_code == 403
    assert visitor.post("/erasures/1/proof").status_code == 422
    request = service.workspace.store.requests.find(key="first")[0]
    salts = service.workspace.store.certificates.salts(request.id)
    assert len(salts) == 2
    shown = visitor.post("/erasures/1/proof", confirmed="yes")
    assert shown.status_code == 200
    assert shown.headers["cache-control"] == "no-store"
    for one in salts:
        assert one.salt in shown.text
        assert one.commitment in shown.text
    again = visitor.post("/erasures/1/proof", confirmed="yes")
    assert again.status_code == 410
    assert "No longer available" in again.text
    page = visitor.get("/erasures/1").text
    assert "It was handed out, or its time is over" in page
    assert "Hand out the proof" not in page


def test_the_page_of_certificates_draws_the_budget(service: Service) -> None:
    visitor = Visitor(service, "audit")
    page = visitor.get("/certificates").text
    head = service.workspace.certificates.head()
    assert head.root in page
    assert head.keys[0] in page.replace("&#43;", "+")
    assert "Joint mu over time" in page
    assert 'class="threshold"' not in page
    assert [f'href="/certificates/{n}/file"' in page for n in range(4)] == [True] * 4
    edit(service.kept, ("retrain_when = [", 'retrain_when = ["budget"]  # ['))
    with serving(service.kept) as again:
        page = Visitor(again, "audit").get("/certificates").text
    assert 'class="threshold"' in page
    assert "budget 2" in page
    export = visitor.get("/certificates/log")
    assert export.content == b"".join(service.workspace.certificates.export())


# --- the worker ----------------------------------------------------------------------------------


def test_workers_certify_what_they_apply(database: servers.Server | None, tmp_path: Path) -> None:
    """Two of them: the second goes on with the log of the first."""
    kept = make_certified(tmp_path / "w", database)
    with kept.open() as ws:
        everybody = trained_people(ws)
        for n, keys in ((1, ["a", "b"]), (3, ["c"])):
            with working(kept.folder):
                for i, key in enumerate(keys):
                    ws.submit(subjects=[everybody[n + i]], key=key)
                    until(lambda key=key: _applied(ws, key), "the erasure")
        job = ws.store.jobs.submit("retrain", {}, now())
        with working(kept.folder):
            until(lambda: ws.store.jobs.find(id=job)[0].state == "done", "the retraining")
        check_log(ws)
        check_export(ws)
        assert ws.certificates.find()[-1].kind == "retrained"
        assert ws.certificates.hand_out("c").salts


def _applied(ws: Any, key: str) -> bool:
    return bool(ws.store.requests.find(key=key)[0].state == "applied")


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["forget.certified", "forget.listed", "forget.committed", "purge.recorded"]
)
def test_a_worker_that_is_killed_leaves_no_release_without_its_entry(
    server: servers.Server, tmp_path: Path, point: str
) -> None:
    kept = make_certified(tmp_path / "w", server)
    with kept.open() as ws:
        everybody = trained_people(ws)
        for i in range(4):
            ws.submit(subjects=[everybody[i]], key=f"k{i}")
        dying = start(kept.folder, point, signal.SIGKILL)
        assert dying.wait(120) == -signal.SIGKILL
        with working(kept.folder) as second:
            until(lambda: second.events("lease-taken-over"), "the take-over")
            until(lambda: ws.store.requests.counts()["applied"] == 4, "the erasures")
            ws.submit(subjects=[everybody[4]])
            until(lambda: ws.store.requests.counts()["applied"] == 5, "one more")
        check_log(ws)
        check_export(ws)


def test_a_worker_goes_on_without_the_key(original: Kept, tmp_path: Path) -> None:
    kept = original.copy(tmp_path / "own")
    key, aside = kept.folder / "signing.key", tmp_path / "aside"
    os.rename(key, aside)
    with kept.open() as ws:
        with working(kept.folder):
            until(lambda: _applied(ws, "fourth"), "the erasure")
            assert ws.status().certificates.waiting == 1
            shutil.copy(aside, key)
            ws.submit(subjects=trained_people(ws)[:1], key="fifth")
            until(lambda: _applied(ws, "fifth"), "the erasure")
            until(lambda: ws.status().certificates.waiting == 0, "the signatures")
        check_log(ws)
