"""The OpenAPI document is correct: each request that it allows gets a response that it describes.

JOBFORGE_LONG=1 tries many more requests.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import api_page
import pytest
import schemathesis
from api.api_server import ApiServer
from api.tenant_objects import create_tenant_objects, rows_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from jobforge.api import create_app
from jobforge.api.auth.permissions import PREFIX, RULES
from jobforge.api.caller import TENANT_HEADER
from jobforge.api.openapi import list_error_codes
from jobforge.config import Config

IS_LONG = bool(os.environ.get("JOBFORGE_LONG"))
EXAMPLES = 300 if IS_LONG else 2
# Rules that a schema cannot express: a window needs its length; a time must be within a year.
BEYOND_A_SCHEMA = positive_data_acceptance
# Responses that last as long as the client stays connected.
ENDLESS = {"stream", "list_logs", "claim_jobs"}


def _keys(api: ApiServer) -> type:
    class Keys:
        """The API key of the least role that may use an operation."""

        def get(self, _: Any, context: Any) -> str:
            roles = context.operation.definition.raw["x-roles"]
            for role in ("tenant_admin", "worker"):
                if role in roles:
                    return api.a.keys[role]
            return api.super_key

        def set(self, case: Any, data: str, _: Any) -> None:
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}

    return Keys


def _operations(api: ApiServer) -> Iterator[Any]:
    document = create_app(Config()).openapi()
    for path in document["paths"].values():
        for operation in path.values():  # the tenant must not be random
            operation["parameters"] = [
                parameter
                for parameter in operation.get("parameters", [])
                if parameter["name"] != TENANT_HEADER
            ]
    config = SchemathesisConfig()
    refused = config.projects.default.checks.negative_data_rejection
    # The server does not validate a body that is too large.
    refused.expected_statuses = [*refused.expected_statuses, "413"]
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.auth(refresh_interval=None)(_keys(api))
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.definition.raw["operationId"] not in ENDLESS:
            yield operation


def _try(api: ApiServer, operation: Any, mode: GenerationMode) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not IS_LONG,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(base_url=api.url, timeout=30, excluded_checks=[BEYOND_A_SCHEMA])

    with suppress(Unsatisfiable):  # no request for it can be invalid
        check()


@pytest.mark.filterwarnings("default")  # schemathesis uses `random` in its strategies
@pytest.mark.timeout(7200 if IS_LONG else 120)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_response_is_as_the_document_says(api: ApiServer, mode: GenerationMode) -> None:
    create_tenant_objects(api)
    before = list(rows_of(api.conn, api.b.tenant_id))
    for operation in _operations(api):
        _try(api, operation, mode)
    assert list(rows_of(api.conn, api.b.tenant_id)) == before


def test_every_route_has_a_description_and_all_its_errors() -> None:
    document = create_app(Config()).openapi()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            refusals = {status for status in operation["responses"] if status >= "400"}
            assert "500" in refusals, where
            if operation["security"]:
                assert {"401", "403", "429", "503"} <= refusals, where
            if "requestBody" in operation:
                assert {"400", "413", "415", "422"} <= refusals, where
            if "{" in path:
                assert "404" in refusals, where


def test_every_field_and_parameter_has_a_description() -> None:
    document = create_app(Config()).openapi()
    described = {
        f"{schema}.{field}": api_page.field_description(item)
        for schema, content in document["components"]["schemas"].items()
        for field, item in content.get("properties", {}).items()
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            for each in operation.get("parameters", []):
                if each["in"] != "path":
                    name = f"{operation['operationId']}.{each['name']}"
                    described[name] = api_page.field_description(each)
    assert [name for name, text in described.items() if not text] == []


def test_codes_are_listed_under_the_status_they_come_with() -> None:
    assert "not_found" in list_error_codes(404)
    assert "tenant_queue_full" in list_error_codes(429)
    assert {"duplicate_member", "nul_character", "too_deep"} <= set(list_error_codes(400))
    assert "idempotency_key_reused" in list_error_codes(409)


def test_the_generated_api_page_is_current() -> None:
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), "run make pages"


def test_the_routes_of_the_guide_exist() -> None:
    pages = ("http", "http-auth", "live-stream", "worker-protocol")
    guide = "".join(
        (api_page.PAGE.parent / f"{page}.md").read_text(encoding="utf-8") for page in pages
    )
    named = set(re.findall(r"\$URL(/[\w/$]+)", guide))
    assert len(named) > 8
    known = [re.sub(r"{\w+}", "[^/]+", path) for _, path in RULES]
    for path in named:
        assert any(re.fullmatch(route, PREFIX + path) for route in known), path


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_internal_error_is_logged_once_and_the_response_has_only_the_request_id(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The app was never started, so every use of the database fails.
    client = TestClient(create_app(Config()))
    answer = client.request(method, f"{PREFIX}/jobs")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "internal"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "AttributeError" not in answer.text
    assert caplog.text.count("request.failed") == 1


def test_only_pages_of_allowed_origins_may_read_responses() -> None:
    client = TestClient(create_app(Config(cors_origins=("https://app.example",))))
    for origin, status in (("https://app.example", 200), ("https://evil.example", 400)):
        asked = {"origin": origin, "access-control-request-method": "POST"}
        answer = client.options(f"{PREFIX}/jobs", headers=asked)
        assert answer.status_code == status
        assert ("access-control-allow-origin" in answer.headers) == (status == 200)
        assert "access-control-allow-credentials" not in answer.headers


def test_a_page_of_an_allowed_origin_may_resume_the_stream() -> None:
    client = TestClient(create_app(Config(cors_origins=("https://app.example",))))
    asked = {
        "origin": "https://app.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization, last-event-id",
    }
    answer = client.options(f"{PREFIX}/stream", headers=asked)
    assert answer.status_code == 200
    assert "Last-Event-ID" in answer.headers["access-control-allow-headers"]
