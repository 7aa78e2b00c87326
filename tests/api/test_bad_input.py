"""Each kind of invalid request has its status and error code; none causes a server error."""

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest
from api.api_server import API, ApiServer
from attacks import Attempts

from jobforge.api.request_body import LARGE_BYTES, parse
from jobforge.errors import (
    BadBody,
    DuplicateMember,
    NulCharacter,
    NumberTooLong,
    TooDeep,
)

DEEP = '{"definition": "plain", "payload": {"a": ' + "[" * 80 + "]" * 80 + "}}"
JSON = {"content-type": "application/json"}


class Case(NamedTuple):
    """An invalid request with its expected status and code."""

    about: str
    status: int
    code: str
    body: str | bytes = ""
    path: str = "/jobs"
    method: str = "POST"
    headers: dict[str, str] = JSON


def _get(about: str, status: int, code: str, path: str) -> Case:
    return Case(about, status, code, path=path, method="GET")


def _put(payload: str) -> str:
    return f'{{"definition": "plain", "payload": {payload}}}'


CASES = [
    Case("not JSON", 400, "invalid_json", "{"),
    Case("JSON and more", 400, "invalid_json", "{} {}"),
    Case("not UTF-8", 400, "invalid_json", b'{"definition": "\xff"}'),
    Case("NaN", 400, "invalid_json", _put('{"a": NaN}')),
    Case("Infinity", 400, "invalid_json", _put('{"a": -Infinity}')),
    Case("too large a number", 400, "number_too_long", _put('{"a": 1e999}')),
    Case("5,000 digits", 400, "number_too_long", _put('{"a": ' + "9" * 5000 + "}")),
    Case("30 digits", 422, "invalid", _put('{"a": ' + "9" * 30 + "}")),
    Case("a member twice", 400, "duplicate_member", '{"definition": "a", "definition": "b"}'),
    Case("twice, within", 400, "duplicate_member", _put('{"a": {"b": 1, "b": 2}}')),
    Case("NUL", 400, "nul_character", _put('{"a": "\\u0000"}')),
    Case("NUL in a name", 400, "nul_character", _put('{"\\u0000": 1}')),
    Case("half a pair", 400, "invalid_json", _put('{"a": "\\ud800"}')),
    Case("80 levels", 400, "too_deep", DEEP),
    Case("100,000 levels", 400, "too_deep", "[" * 100_000 + "]" * 100_000),
    Case("brackets that do not match", 400, "invalid_json", "[" * 50 + "}" * 50),
    Case("a body too large", 413, "payload_too_large", " " * 1_100_000),
    Case("another type", 415, "unsupported_media_type", "{}", headers={"content-type": "text/x"}),
    Case("no type", 415, "unsupported_media_type", "{}", headers={}),
    Case(
        "compressed",
        415,
        "unsupported_media_type",
        gzip.compress(b"{}" * 1000),
        headers={**JSON, "content-encoding": "gzip"},
    ),
    Case("no body", 422, "invalid"),
    Case("a list", 422, "invalid", "[]"),
    Case("an unknown member", 422, "unknown_field", '{"definition": "plain", "state": "dead"}'),
    Case("another's tenant", 422, "unknown_field", '{"definition": "plain", "tenant_id": "x"}'),
    Case("a lease", 422, "unknown_field", '{"definition": "plain", "lease": 1}'),
    Case("no definition", 422, "invalid", "{}"),
    Case("an unknown definition", 404, "unknown_definition", '{"definition": "nobody"}'),
    Case("an unknown version", 404, "unknown_definition", '{"definition": "plain@9"}'),
    Case("too high a priority", 422, "invalid", '{"definition": "plain", "priority": 40000}'),
    Case("a text for a number", 422, "invalid", '{"definition": "plain", "priority": "1"}'),
    Case("no attempts", 422, "invalid", '{"definition": "plain", "max_attempts": 0}'),
    Case(
        "a time without a zone", 422, "invalid", '{"definition": "plain", "run_at": "2026-01-01"}'
    ),
    Case("a number for a time", 422, "invalid", '{"definition": "plain", "run_at": 1}'),
    Case("far ahead", 422, "invalid", '{"definition": "plain", "run_at": "9999-12-31T23:59:59Z"}'),
    Case(
        "beyond all times",
        422,
        "invalid",
        '{"definition": "plain", "run_at": "9999-12-31T23:59:59-23:00", "far_future": true}',
    ),
    Case("a payload that does not fit", 422, "invalid_payload", '{"definition": "mail"}'),
    Case("no key", 422, "invalid", '{"definition": "plain", "key": ""}'),
    Case("a long key", 422, "invalid", json.dumps({"definition": "plain", "key": "k" * 256})),
    Case("an empty batch", 422, "invalid", '{"jobs": []}', path="/jobs/batch"),
    _get("a limit below", 422, "invalid", "/jobs?limit=-1"),
    _get("a limit of 0", 422, "invalid", "/jobs?limit=0"),
    _get("a limit above", 422, "invalid", "/jobs?limit=1000000000"),
    _get("a limit that is none", 422, "invalid", "/jobs?limit=ten"),
    _get("a bad cursor", 422, "invalid", "/jobs?cursor=%21%21"),
    _get("a cursor of something else", 422, "invalid", "/jobs?cursor=bWFpbA"),
    _get("an unknown parameter", 422, "unknown_field", "/jobs?sort=payload"),
    _get("an unknown state", 422, "invalid", "/jobs?state=lost"),
    _get("NUL in a query", 422, "invalid", "/jobs?tag=%00"),
    _get("a wrong time", 422, "invalid", "/jobs?created_after=yesterday"),
    _get("an id that is none", 422, "invalid", "/jobs/1"),
    _get("an id that is not there", 404, "not_found", f"/jobs/{uuid4()}"),
    _get("a key that is none", 422, "invalid", "/definitions/%00"),
    _get("no such route", 404, "no_such_route", "/nothing"),
    Case("another method", 405, "method_not_allowed", method="PUT"),
]


@pytest.mark.attack("malformed HTTP requests")
def test_every_bad_request_has_its_status_and_its_code(api: ApiServer, attempts: Attempts) -> None:
    attempts(len(CASES))
    client = api.client("tenant_admin")
    for case in CASES:
        answer = client.request(
            case.method, case.path, content=case.body or None, headers=case.headers
        )
        output = f"{case.about}: {answer.status_code} {answer.text}"
        problem = answer.json()
        assert "code" in problem, output
        assert (answer.status_code, problem["code"]) == (case.status, case.code), output
        assert answer.headers["content-type"] == "application/problem+json", output
        assert problem["request_id"] == answer.headers["x-request-id"], output
        assert ("allow" in answer.headers) == (case.status == 405), output
        assert set(problem) == {
            *("type", "title", "status", "code", "detail", "errors", "facts", "request_id")
        }
    assert api.client("viewer").get("/jobs").json()["items"] == []


def test_a_too_long_string_is_measured_in_characters(api: ApiServer) -> None:
    for answer in (
        api.client("viewer").get(f"/jobs?tag={'x' * 256}"),
        api.client("tenant_admin").post("/jobs", json={"definition": "plain", "key": "k" * 256}),
    ):
        assert "at most 255 characters" in answer.json()["detail"]


@pytest.mark.attack("malformed HTTP requests")
@pytest.mark.parametrize(
    ("key", "status", "code"),
    [("", 422, "invalid"), ("k" * 256, 422, "invalid"), ("\x80", 422, "invalid")],
)
def test_a_bad_idempotency_key_is_refused(api: ApiServer, key: str, status: int, code: str) -> None:
    raw = {b"idempotency-key": key.encode("latin-1")}
    answer = api.client("tenant_admin").post("/jobs", json={"definition": "plain"}, headers=raw)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_an_error_has_the_place_of_the_mistake_and_not_the_value(api: ApiServer) -> None:
    body = {"definition": "mail", "payload": {"to": "a", "n": "hunter2-is-secret"}}
    problem = api.client("tenant_admin").post("/jobs", json=body).json()
    assert problem["errors"][0]["field"] == "payload.n"
    assert "hunter2" not in json.dumps(problem)
    batch = {"jobs": [{"definition": "plain"}, {"definition": "mail", "payload": {}}]}
    problem = api.client("tenant_admin").post("/jobs/batch", json=batch).json()
    assert problem["errors"][0]["field"] == "jobs.1.payload"


@pytest.mark.attack("malformed HTTP requests")
def test_a_request_that_is_not_http_gets_a_problem_response(api: ApiServer) -> None:
    with closing(HTTPConnection(urlsplit(api.url).netloc)) as connection:
        connection.request("POST", "/api/v1/jobs", headers={"transfer-encoding": "none"})
        answer = connection.getresponse()
        problem = json.load(answer)
    assert (answer.status, problem["code"]) == (400, "bad_request")
    assert answer.getheader("content-type") == "application/problem+json"
    assert answer.getheader("x-request-id") == problem["request_id"]


@pytest.mark.attack("malformed HTTP requests")
def test_headers_without_an_end_are_refused(api: ApiServer) -> None:
    with closing(HTTPConnection(urlsplit(api.url).netloc)) as connection:
        connection.putrequest("GET", "/health")
        connection.putheader("x-long", "a" * 4_000_000)
        # the response is lost if the client sends more than the server reads
        with suppress(OSError):
            connection.endheaders()
            assert connection.getresponse().status == 400


def test_a_refused_method_lists_the_allowed_methods_of_its_path(api: ApiServer) -> None:
    client = api.client("tenant_admin")
    assert client.put("/jobs").headers["allow"] == "GET, POST"
    assert client.put(f"/jobs/{uuid4()}").headers["allow"] == "GET, PATCH"


@pytest.mark.attack("malformed HTTP requests")
def test_a_body_of_unknown_length_is_limited_too(api: ApiServer) -> None:
    chunks = (b" " * 100_000 for _ in range(20))
    answer = api.client("tenant_admin").post("/jobs", content=chunks, headers=JSON)
    assert answer.status_code == 413


@pytest.mark.attack("malformed HTTP requests")
@pytest.mark.parametrize("path", ["/jobs/batch", "/batches", "/batches/{}/jobs", "/workflows"])
def test_bodies_of_bulk_requests_may_be_larger(api: ApiServer, path: str) -> None:
    post = partial(api.client("tenant_admin").post, path.format(uuid4()), headers=JSON)
    assert post(content="[]" + " " * 1_100_000).json()["code"] == "invalid"
    assert post(content="[]" + " " * 17_000_000).json()["code"] == "payload_too_large"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "[[[{{{", "b": "\\"]]"}', {"a": "[[[{{{", "b": '"]]'}),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        ("[" * 69 + "]" * 69, None),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_valid_json_is_accepted(text: str, value: Any) -> None:
    assert value in (None, parse(text.encode()))


@pytest.mark.attack("malformed HTTP requests")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[" * 71 + "]" * 71, TooDeep),
        ('{"a": "\\"", "b": ' + "[" * 71 + "]" * 71 + "}", TooDeep),
        ('[{"a": 1, "a": 1}]', DuplicateMember),
        ("[,]", BadBody),
    ],
)
def test_invalid_json_is_refused(text: str, error: type[BadBody]) -> None:
    with pytest.raises(error):
        parse(text.encode())


PADDINGS = {
    "small": "",
    "large": " " * LARGE_BYTES,
    "large, with many arrays": f"{' ' * LARGE_BYTES}[{'[],' * 60_000}",
}


@pytest.mark.attack("malformed HTTP requests")
@pytest.mark.parametrize("padding", list(PADDINGS))
def test_bodies_of_all_sizes_follow_the_same_rules(padding: str, attempts: Attempts) -> None:
    before = PADDINGS[padding]
    after = "]" if "[" in before else ""
    for text, expected in {
        '{"a": [1, -2.5e3, "x", true, null], "b": {}}': None,
        "[" * 60 + "]" * 60: None,
        "[" * 71 + "]" * 71: TooDeep,
        "[" * 100_000: TooDeep,
        '{"a": 1, "a": 1}': DuplicateMember,
        '"\\u0000"': NulCharacter,
        '{"a\\ud800": 1}': BadBody,
        "NaN": BadBody,
        "1e999": NumberTooLong,
        "9" * 5000: NumberTooLong,
        "{": BadBody,
    }.items():
        body = f"{before}{text}{after}".encode()
        if expected is None:
            assert parse(body) == json.loads(body)
            continue
        with pytest.raises(expected):
            parse(body)
        attempts(1)


@pytest.mark.attack("limits")
def test_the_server_responds_to_others_while_it_parses_a_large_body(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def parse_slowly(raw: bytes) -> Any:
        if len(raw) > LARGE_BYTES:
            began.set()
            assert may_end.wait(10), "no other request got a response"
        return parse(raw)

    monkeypatch.setattr("jobforge.api.request_body.parse", parse_slowly)
    jobs = [{"definition": "plain", "payload": {"x": "y" * 100}}] * 1000
    admin = api.client("tenant_admin")
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(admin.post, "/jobs/batch", json={"jobs": jobs})
        assert began.wait(10)
        small = httpx2.post(
            f"{api.url}{API}/jobs",
            json={"definition": "plain"},
            headers={"authorization": f"Bearer {api.a.keys['tenant_admin']}"},
            trust_env=False,
        )
        assert not large.done()
        may_end.set()
        assert (small.status_code, large.result().status_code) == (201, 201)


@pytest.mark.attack("malformed HTTP requests")
@pytest.mark.timeout(20)  # linear in the size of the body, not quadratic
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[" * 71 + '"' + '\\"' * 500_000, BadBody),
        ("{" + "".join(f'"{n}":0,' for n in range(100_000)) + '"99999":0}', DuplicateMember),
    ],
)
def test_every_invalid_body_is_refused_quickly(text: str, error: type[BadBody]) -> None:
    with pytest.raises(error):
        parse(text.encode())
