"""Traces over HTTP: the jobs of a request continue the trace of the request."""

from typing import Any

import pytest
from api.api_server import ApiServer
from cluster import wait_until
from integration.span_recorder import are_nested, record_spans
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from jobforge import Client
from jobforge.types.jobs import JobRequest

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _traceparent(api: ApiServer, job_id: str) -> Any:
    return api.client("viewer").get(f"/jobs/{job_id}").json()["job"]["traceparent"]


@pytest.mark.parametrize(
    ("header", "named", "kept"),
    [
        (TRACEPARENT, None, TRACEPARENT),
        (f"cc{TRACEPARENT[2:]}-what-comes-later", None, TRACEPARENT),
        (TRACEPARENT, OTHER, OTHER),
        ("nonsense", None, None),
    ],
)
def test_a_job_continues_the_trace_of_its_request(
    api: ApiServer, header: str, named: str | None, kept: str | None
) -> None:
    body = {"definition": "plain", "traceparent": named}
    created = api.client("tenant_admin").post("/jobs", json=body, headers={"traceparent": header})
    assert _traceparent(api, created.json()["id"]) == kept


def test_all_jobs_of_a_request_continue_its_trace(api: ApiServer) -> None:
    admin, headers = api.client("tenant_admin"), {"traceparent": TRACEPARENT}
    job = {"definition": "plain"}
    jobs = admin.post("/jobs/batch", json={"jobs": [job]}, headers=headers).json()["items"]
    batch = admin.post("/batches", json={"jobs": [job]}, headers=headers).json()["jobs"]
    inner = {"name": "inner", "workflow": {"name": "inner", "nodes": [{"name": "a", **job}]}}
    flow = {"name": "outer", "nodes": [{"name": "b", **job}, inner]}
    nodes = admin.post("/workflows", json=flow, headers=headers).json()["nodes"]
    created = [each["id"] for each in (*jobs, *batch)] + [each["job_id"] for each in nodes]
    assert [_traceparent(api, job_id) for job_id in created] == [TRACEPARENT] * 4
    event = admin.post("/events", json={"name": "paid"}, headers=headers).json()["id"]
    assert admin.get(f"/events/{event}").json()["traceparent"] == TRACEPARENT


def test_a_request_is_a_span_between_its_caller_and_the_job(api: ApiServer) -> None:
    with (
        record_spans() as recorder,
        Client(api.url, api.a.keys["tenant_admin"]) as client,
    ):
        with recorder.tracer.start_as_current_span("sign up"):
            created = client.enqueue_job(JobRequest("plain"))
        # the span ends after the response
        wait_until(lambda: "POST /api/v1/jobs" in recorder.names())
        span = recorder.span_named("POST /api/v1/jobs")
    assert are_nested(recorder.span_named("sign up"), span)
    assert span.kind is SpanKind.SERVER
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 201
    assert f"{span.context.span_id:016x}" in _traceparent(api, str(created.job_id))


def test_with_a_tracing_framework_a_request_has_one_span(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record_spans() as recorder:
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder.provider)
        api.client("viewer").get("/queues").raise_for_status()
        wait_until(lambda: bool(recorder.names()))
        assert recorder.names() == ["GET /api/v1/queues"]
