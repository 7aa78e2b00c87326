"""Workflows and batches over HTTP."""

from uuid import UUID

import pytest
from api.api_server import ApiServer

from jobforge import errors
from jobforge.client.client import Client
from jobforge.errors import Json
from jobforge.types.jobs import JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowFilter, WorkflowRequest, WorkflowState

NODES: list[dict[str, Json]] = [
    {"name": "first", "definition": "plain"},
    {"name": "second", "definition": "plain", "after": ["first"]},
]


def test_a_workflow_is_created_read_canceled_and_retried(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post(
        "/workflows", json={"name": "nightly", "nodes": NODES, "input": {"day": 1}}
    )
    assert created.status_code == 201, created.text
    path = f"/workflows/{created.json()['id']}"
    shown = admin.get(path).json()
    assert shown["workflow"]["input"] == {"day": 1}
    assert [node["state"] for node in shown["nodes"]] == ["queued", "blocked"]
    assert shown["edges"] == [["first", "second"]]
    assert admin.post(f"{path}/cancel", json={"reason": "no"}).json() == {"state": "canceled"}
    assert admin.post(f"{path}/retry", json={"from": "second"}).status_code == 409
    assert admin.post(f"{path}/retry").json() == {"jobs": 2}
    [listed] = admin.get("/workflows", params={"name": "nightly"}).json()["items"]
    assert listed["state"] == "running"


def test_a_workflow_and_a_batch_keep_their_callbacks(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    callback = {"definition": "plain", "payload": {"n": 1}}
    workflow = admin.post(
        "/workflows", json={"name": "nightly", "nodes": NODES, "on_success": callback}
    )
    assert workflow.status_code == 201, workflow.text
    batch = admin.post("/batches", json={"jobs": [{"definition": "plain"}], "on_failure": callback})
    assert batch.status_code == 201, batch.text
    shown = admin.get(f"/workflows/{workflow.json()['id']}").json()["workflow"]
    assert shown["callbacks"]["on_success"]["definition"] == "plain"
    shown = admin.get(f"/batches/{batch.json()['id']}").json()
    assert shown["callbacks"]["on_failure"]["definition"] == "plain"


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([{"name": "a", "definition": "plain", "after": ["a"]}], "invalid"),
        ([{"name": "a", "definition": "plain", "after": ["b"]}], "invalid"),
        ([{"name": "a", "definition": "unknown"}], "unknown_definition"),
        ([], "invalid"),
    ],
)
def test_an_invalid_workflow_is_refused(api: ApiServer, nodes: list[object], code: str) -> None:
    answer = api.client("tenant_admin").post("/workflows", json={"name": "w", "nodes": nodes})
    assert answer.status_code in {404, 422}
    assert answer.json()["code"] == code, answer.text


def test_a_job_enqueued_over_http_waits_for_its_parent(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    parent = admin.post("/jobs", json={"definition": "plain"}).json()["id"]
    child = admin.post("/jobs", json={"definition": "plain", "after": [parent]}).json()["id"]
    shown = admin.get(f"/jobs/{child}").json()
    assert shown["job"]["state"] == "blocked"
    assert [each["job_id"] for each in shown["parents"]] == [parent]
    [reason, *_] = admin.get(f"/jobs/{child}/explain").json()["items"]
    assert reason["code"] == "waiting_parents"


def test_the_client_has_all_workflow_methods(api: ApiServer) -> None:
    with Client(api.url, api.a.keys["tenant_admin"]) as client:
        created = client.enqueue_workflow(WorkflowRequest("by client", NODES))
        detail = client.get_workflow(created.id)
        assert {node.node: node.job_id for node in detail.nodes} == created.jobs
        assert client.cancel_workflow(created.id) is WorkflowState.CANCELED
        assert client.retry_workflow(created.id) == 2
        [listed] = client.list_workflows(WorkflowFilter(name="by client"))
        assert listed.id == created.id
        batch = client.create_batch(BatchRequest(open=True), [JobRequest("plain")])
        [added] = client.add_to_batch(batch.id, [JobRequest("plain")])
        assert isinstance(added.job_id, UUID)
        assert client.close_batch(batch.id) is WorkflowState.RUNNING
        assert client.get_batch(batch.id).counts == {"queued": 2}
        assert client.cancel_batch(batch.id) is WorkflowState.CANCELED
        with pytest.raises(errors.Conflict):
            client.add_to_batch(batch.id, [JobRequest("plain")])
        assert batch.id in [each.id for each in client.list_batches()]
