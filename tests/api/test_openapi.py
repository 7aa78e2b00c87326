"""The OpenAPI document tells the truth: whatever it allows is answered as it says.

JOBFORGE_LONG=1 tries much more of it.
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
# A schema cannot say all: that a window needs its length, that a year ahead is too far.
BEYOND_A_SCHEMA = positive_data_acceptance
# These go on for as long as somebody listens.
ENDLESS = {"stream", "list_logs", "claim_jobs"}


def _keys(api: ApiServer) -> type:
    class Keys:
        """The key of the least role that may use an operation."""

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
        for operation in path.values():  # which tenant is no matter of chance
            operation["parameters"] = [
                parameter
                for parameter in operation.get("parameters", [])
                if parameter["name"] != TENANT_HEADER
            ]
    config = SchemathesisConfig()
    refused = config.projects.default.checks.negative_data_rejection
    # In a body that is too large nobody looks for what else is wrong.
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

    with suppress(Unsatisfiable):  # nothing about it can be wrong
        check()


@pytest.mark.filterwarnings("default")  # schemathesis uses `random` in its strategies
@pytest.mark.timeout(7200 if IS_LONG else 120)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_as_the_document_says(api: ApiServer, mode: GenerationMode) -> None:
    create_tenant_objects(api)
    before = list(rows_of(api.conn, api.b.tenant_id))
    for operation in _operations(api):
        _try(api, operation, mode)
    assert list(rows_of(api.conn, api.b.tenant_id)) == before


def test_every_route_has_words_for_people_and_all_its_errors() -> None:
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


def test_codes_are_listed_under_the_status_they_come_with() -> None:
    assert "not_found" in list_error_codes(404)
    assert "tenant_queue_full" in list_error_codes(429)
    assert {"duplicate_member", "nul_character", "too_deep"} <= set(list_error_codes(400))
    assert "idempotency_key_reused" in list_error_codes(409)


def test_the_page_of_the_api_is_current() -> None:
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), "run scripts/api_page.py"


def test_the_routes_of_the_guide_exist() -> None:
    guide = (api_page.PAGE.parent / "http.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\$URL(/[\w/$]+)", guide))
    assert len(named) > 8
    known = [re.sub(r"{\w+}", "[^/]+", path) for _, path in RULES]
    for path in named:
        assert any(re.fullmatch(route, PREFIX + path) for route in known), path


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_bug_is_told_once_and_answered_with_no_more_than_the_id_of_its_request(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    # It was never started: whatever asks for the database goes wrong.
    client = TestClient(create_app(Config()))
    answer = client.request(method, f"{PREFIX}/jobs")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "internal"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "AttributeError" not in answer.text
    assert caplog.text.count("request.failed") == 1


def test_only_pages_of_named_origins_may_read_answers() -> None:
    client = TestClient(create_app(Config(cors_origins=("https://app.example",))))
    for origin, status in (("https://app.example", 200), ("https://evil.example", 400)):
        asked = {"origin": origin, "access-control-request-method": "POST"}
        answer = client.options(f"{PREFIX}/jobs", headers=asked)
        assert answer.status_code == status
        assert ("access-control-allow-origin" in answer.headers) == (status == 200)
        assert "access-control-allow-credentials" not in answer.headers
