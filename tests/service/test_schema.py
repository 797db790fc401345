"""What the schema allows is answered as the schema says, and what it does not is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from certified import make_certified
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from services import Service, bearer, listening, token
from test_roles import API

from unfit.service import event_streams
from unfit.service.app import bare_app

CHECKS = [
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, dict[str, str], dict[str, Any]]]:
    """An address, an admin's headers and the schema, of a service with something in it."""
    kept = make_certified(tmp_path_factory.mktemp("schema") / "w")
    with kept.open() as ws:
        ws.forget(subjects=["p0003", "p0017", "p0020"])
        ws.submit(subjects=["p0004"])
    with pytest.MonkeyPatch.context() as patch, listening(kept) as (host, port, app):
        patch.setattr(event_streams, "FOLLOW_SECONDS", 0.2)
        yield f"http://{host}:{port}", bearer(token(kept.folder, "admin")), app.openapi()


@pytest.fixture(scope="module")
def api(served: tuple[str, dict[str, str], dict[str, Any]]) -> Any:
    config = schemathesis.Config()
    config.projects.default.update(base_url=served[0])
    return schemathesis.openapi.from_dict(served[2], config=config)


def cases() -> list[tuple[str, GenerationMode]]:
    """Every operation with good input, and with bad where there is any to get wrong."""
    paths, made = bare_app().openapi()["paths"], []
    for name in API:
        method, path = name.split()
        if path == "/openapi.json":
            continue
        made.append((name, GenerationMode.POSITIVE))
        operation = paths[path][method.lower()]
        where = {parameter["in"] for parameter in operation.get("parameters", ())}
        if "requestBody" in operation or where & {"query", "path"}:
            made.append((name, GenerationMode.NEGATIVE))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), cases())
def test_the_api_is_as_its_schema_says(
    api: Any, served: tuple[str, dict[str, str], dict[str, Any]], name: str, mode: GenerationMode
) -> None:
    method, path = name.split()
    operation = api[path][method]

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def answers(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=served[0], headers=served[1], checks=CHECKS)

    answers()


def test_the_schema_is_valid_and_names_what_every_route_may_answer(shared: Service) -> None:
    made = shared.app.openapi()
    names = set(made["components"]["schemas"])
    used: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                used.add(part["$ref"].rsplit("/", 1)[1])
            for one in part.values():
                walk(one)
        elif isinstance(part, list):
            for one in part:
                walk(one)

    walk(made)
    assert used <= names
    assert "HTTPValidationError" not in used  # ours is a Problem
    for path, operations in made["paths"].items():
        for operation in operations.values():
            statuses = set(operation["responses"])
            assert any(s.startswith("2") for s in statuses)
            if path.startswith("/v1"):
                assert {"401", "403", "422", "429", "503"} <= statuses
