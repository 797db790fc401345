"""Who may do what, written down: every route with every role, and with none.

The table is the specification. A route that is not in it fails, and so does a line without a route.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from services import Service, bearer, serving, token
from starlette.routing import Mount
from workspaces import Kept

from unfit.clock import now
from unfit.service.app import guarded_routes
from unfit.service.auth import (
    COOKIE,
    CSRF_FIELD,
    CSRF_HEADER,
    PUBLIC,
    GuardedRoute,
    PageRoute,
    Principal,
    allow,
)
from unfit.service.middleware import STATIC
from unfit.service.roles import ROLES

ADMIN = {"admin"}
SEES = {"erase", "operate", "audit"}
LOOKS = {"operate", "audit"}

API: dict[str, set[str]] = {
    "GET /health/live": {PUBLIC},
    "GET /health/ready": {PUBLIC},
    "GET /openapi.json": {PUBLIC},
    "GET /metrics": {"operate"},
    "POST /v1/predictions": {"predict"},
    "POST /v1/erasures": {"erase"},
    "GET /v1/erasures": SEES,
    "GET /v1/erasures/{id}": SEES,
    "DELETE /v1/erasures/{id}": {"erase"},
    "GET /v1/erasures/{id}/events": SEES,
    "GET /v1/erasures/{id}/certificate": SEES,
    "POST /v1/erasures/{id}/proof": {"erase"},
    "GET /v1/certificates": SEES,
    "GET /v1/certificates/{number}": SEES,
    "GET /v1/versions/{number}/certificate": LOOKS,
    "GET /v1/log": SEES,
    "GET /v1/log/export": LOOKS,
    "POST /v1/log/growth": SEES,
    "GET /v1/log/keys": SEES,
    "POST /v1/subjects/lookup": {"erase"},
    "GET /v1/model": {"predict", "erase", "operate", "audit"},
    "GET /v1/status": SEES,
    "GET /v1/versions": LOOKS,
    "GET /v1/versions/{number}": LOOKS,
    "GET /v1/versions/{number}/export": {"operate"},
    "GET /v1/decisions": LOOKS,
    "POST /v1/audits": {"audit"},
    "GET /v1/audits": LOOKS,
    "GET /v1/audits/{id}": LOOKS,
    "GET /v1/audits/{id}/report": LOOKS,
    "POST /v1/retrainings": {"operate"},
    "GET /v1/retrainings": LOOKS,
    "GET /v1/retrainings/{id}": LOOKS,
}
PAGES: dict[str, set[str]] = {
    "GET /sign-in": {PUBLIC},
    "POST /sign-in": {PUBLIC},
    "POST /sign-out": SEES,
    "GET /": SEES,
    "GET /overview/panel": SEES,
    "GET /erasures": SEES,
    "POST /erasures": {"erase"},
    "POST /people": {"erase"},
    "GET /erasures/{id}": SEES,
    "GET /erasures/{id}/panel": SEES,
    "GET /erasures/{id}/events": SEES,
    "POST /erasures/{id}/cancel": {"erase"},
    "POST /erasures/{id}/proof": {"erase"},
    "GET /certificates": SEES,
    "GET /certificates/log": LOOKS,
    "GET /certificates/{number}/file": SEES,
    "GET /certificates/{number}/page": SEES,
    "GET /audits": LOOKS,
    "POST /audits": {"audit"},
    "GET /audits/{id}": LOOKS,
    "GET /audits/{id}/panel": LOOKS,
    "GET /audits/{id}/report": LOOKS,
    "GET /versions": LOOKS,
    "GET /versions/export": {"operate"},
    "POST /retrainings": {"operate"},
    "GET /method": SEES,
    "GET /settings": LOOKS,
}
OPEN = [STATIC]  # styles and scripts, for everybody


@pytest.fixture(scope="module")
def service(on_sqlite: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(on_sqlite.copy(tmp_path_factory.mktemp("roles") / "w")) as made:
        yield made


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[str, str]:
    return {role: token(service.kept.folder, role) for role in ROLES}


def named(route: GuardedRoute) -> str:
    (method,) = route.methods or ()
    return f"{method} {route.path}"


def test_every_route_is_in_the_table_and_every_line_is_a_route(service: Service) -> None:
    assert sorted(named(r) for r in guarded_routes(service.app)) == sorted(
        [*API, *PAGES]
    )  # once each
    found = {named(r): set(r.rule) for r in guarded_routes(service.app) if not r.by_cookie}
    assert found == {name: _with_admin(roles) for name, roles in API.items()}
    pages = {named(r): set(r.rule) for r in guarded_routes(service.app) if r.by_cookie}
    assert pages == {name: _with_admin(roles) for name, roles in PAGES.items()}


def _with_admin(roles: set[str]) -> set[str]:
    return roles if roles == {PUBLIC} else roles | ADMIN


def test_every_route_has_a_rule_or_is_open_by_name(service: Service) -> None:
    others = [route for route in service.app.routes if not isinstance(route, GuardedRoute)]
    assert [route.path for route in others if isinstance(route, Mount)] == OPEN
    assert len(others) == len(OPEN)


def test_a_route_without_a_rule_cannot_be_made() -> None:
    for kind in (GuardedRoute, PageRoute):
        routes = APIRouter(route_class=kind)
        with pytest.raises(TypeError, match="/x needs a rule that says who may use it"):

            @routes.get("/x")
            def endpoint() -> None: ...

    for roles in ((), ("everybody",), ("predict", "nobody"), ("predict", PUBLIC)):
        with pytest.raises(ValueError, match="are not roles"):
            allow(*roles)(lambda: None)
    assert FastAPI().router.route_class is not GuardedRoute  # so the app itself is given none


def ask(service: Service, name: str, **options: Any) -> httpx.Response:
    method, path = name.split()
    path = path.replace("{id}", "999").replace("{number}", "999")
    return service.loop.call(lambda: service.client.request(method, path, **options))


@pytest.mark.parametrize("name", API)
def test_the_api_lets_in_whom_the_table_names(
    service: Service, tokens: dict[str, str], name: str
) -> None:
    public = API[name] == {PUBLIC}
    for role, text in tokens.items():
        answer = ask(service, name, headers=bearer(text), json={})
        if public or role in _with_admin(API[name]):
            assert answer.status_code not in (401, 403), (role, answer.text)
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert answer.json()["detail"].startswith("This token lacks the role ")
    admin = tokens["admin"]
    session = _session(service, admin)
    for headers in (
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        bearer("garbage"),
        bearer("unfit_garbage_garbage"),
        bearer(admin + "x"),
        bearer(admin[:-1]),
        bearer("x" * 5000),
        {"Authorization": f"Basic {admin}"},
        {"Authorization": admin},
        {"X-Token": admin},
        {"Cookie": f"{COOKIE}={session}"},
        {"Cookie": f"{COOKIE}={admin}"},
    ):
        answer = ask(service, name, headers=headers, json={}, params={"token": admin})
        assert (answer.status_code == 401) is not public, (headers, answer.text)


def test_a_token_may_have_several_roles(service: Service) -> None:
    headers = bearer(token(service.kept.folder, "predict", "audit"))
    assert ask(service, "GET /v1/decisions", headers=headers).status_code == 200
    assert ask(service, "POST /v1/predictions", headers=headers, json={}).status_code == 422
    assert ask(service, "POST /v1/erasures", headers=headers, json={}).status_code == 403


def _session(service: Service, text: str) -> str:
    access = service.workspace.store.tokens
    found = access.by_text(text)
    assert found is not None
    return access.sign_in(found, now(), timedelta(hours=1))


def _csrf(service: Service, session: str) -> str:
    found = service.workspace.store.tokens.by_session(session)
    assert found is not None
    return Principal(found[0], session).csrf


def _sent_away(answer: httpx.Response) -> bool:
    """To the form that asks for a token."""
    return answer.status_code == 303 and answer.headers["location"].startswith("/sign-in?next=")


@pytest.mark.parametrize("name", PAGES)
def test_the_dashboard_lets_in_whom_the_table_names(
    service: Service, tokens: dict[str, str], name: str
) -> None:
    public = PAGES[name] == {PUBLIC}
    for role, text in tokens.items():
        session = _session(service, text)  # a new one, for signing out ends it
        headers = {"Cookie": f"{COOKIE}={session}", CSRF_HEADER: _csrf(service, session)}
        answer = ask(service, name, headers=headers, data={} if "POST" in name else None)
        assert not _sent_away(answer)
        if public:
            assert answer.status_code in (200, 401)  # the form; an empty one names no token
        elif role in _with_admin(PAGES[name]):
            assert answer.status_code not in (401, 403), (role, answer.text)
        else:
            assert answer.status_code == 403, (role, answer.text)
    admin = tokens["admin"]
    for headers in (
        {},
        {"Cookie": f"{COOKIE}="},
        {"Cookie": f"{COOKIE}=garbage"},
        bearer(admin),
        {"Cookie": f"{COOKIE}={admin}"},
        {"Cookie": f"{COOKIE}={'x' * 500}"},
    ):
        answer = ask(service, name, headers=headers)
        assert _sent_away(answer) is not public, (headers, answer.text)


@pytest.mark.parametrize("name", [n for n in PAGES if "POST" in n and PAGES[n] != {PUBLIC}])
def test_a_form_must_be_of_the_session_that_sends_it(
    service: Service, tokens: dict[str, str], name: str
) -> None:
    session, other = (_session(service, tokens["admin"]) for _ in range(2))
    cookie = {"Cookie": f"{COOKIE}={session}"}
    before = service.workspace.store.requests.counts()
    for word in ("", "garbage", "ü", _csrf(service, other), session):
        answer = ask(service, name, headers=cookie, data={CSRF_FIELD: word, "ids": "p0003"})
        assert answer.status_code == 403, word
        given = cookie | {CSRF_HEADER: word.encode("latin-1")}
        answer = ask(service, name, headers=given, data={"ids": "p0003"})
        assert answer.status_code == 403, word
    for content in (None, b"{}", b"\xff" * 100):
        headers = cookie | {"Content-Type": "application/json"}
        assert ask(service, name, headers=headers, content=content).status_code == 403
    assert service.workspace.store.requests.counts() == before
    answer = ask(service, name, headers=cookie, data={CSRF_FIELD: _csrf(service, session)})
    assert answer.status_code not in (401, 403)


def test_a_session_ends_with_its_time_with_its_token_and_by_signing_out(service: Service) -> None:
    folder: Path = service.kept.folder
    access = service.workspace.store.tokens
    text = token(folder, "operate")
    found = access.by_text(text)
    assert found is not None
    over = access.sign_in(found, now() - timedelta(hours=2), timedelta(hours=1))
    first, second = _session(service, text), _session(service, text)

    def sees(session: str) -> bool:
        answer = ask(service, "GET /", headers={"Cookie": f"{COOKIE}={session}"})
        assert answer.status_code == 200 or _sent_away(answer)
        return answer.status_code == 200

    assert not sees(over)
    assert sees(first)
    assert sees(second)
    headers = {"Cookie": f"{COOKIE}={first}", CSRF_HEADER: _csrf(service, first)}
    answer = ask(service, "POST /sign-out", headers=headers)
    assert answer.headers["set-cookie"].startswith(f'{COOKIE}=""')
    assert not sees(first)
    assert sees(second)
    access.revoke(found.public, now())
    assert not sees(second)


def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_do_not_get(
    service: Service, tokens: dict[str, str]
) -> None:
    answer = ask(service, "POST /sign-in", data={"token": tokens["audit"], "next": "/audits"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/audits")
    cookie = answer.headers["set-cookie"].lower()
    for wanted in ("httponly", "samesite=strict", "path=/", "max-age=28800"):
        assert wanted in cookie
    assert tokens["audit"] not in answer.headers["set-cookie"]
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"):
        data = {"token": tokens["audit"], "next": elsewhere}
        assert ask(service, "POST /sign-in", data=data).headers["location"] == "/"
    for wrong in ("", "garbage", "unfit_a_b", "unfit_\0_b", "ü"):
        answer = ask(service, "POST /sign-in", data={"token": wrong})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert ask(service, "POST /sign-in", data={"token": tokens["predict"]}).status_code == 403


def test_every_decision_is_in_the_log(service: Service, tokens: dict[str, str]) -> None:
    start = len(service.lines())
    for text in (tokens["audit"], tokens["predict"], "garbage"):
        ask(service, "GET /v1/decisions", headers=bearer(text))
    said = [(line["access"], line["status"], line["token"]) for line in service.lines()[start:]]
    public = {role: text.split("_")[1] for role, text in tokens.items()}
    assert said == [
        ("granted", 200, public["audit"]),
        ("denied", 403, public["predict"]),
        ("denied", 401, None),
    ]
    for text in tokens.values():
        assert text.split("_", 2)[2] not in service.written.getvalue()
