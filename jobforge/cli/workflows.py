"""`jobforge workflows`: jobs that come after each other."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from jobforge.cli import graph, output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.options import AsJson
from jobforge.cli.session import Session, Tenant, session
from jobforge.cli.way import ApiKey, ServerUrl, Way
from jobforge.errors import Invalid, Json, NotFound

if TYPE_CHECKING:
    from jobforge.workflow import NodeInfo, WorkflowDetail, WorkflowInfo

app = typer.Typer(help="Look at workflows, cancel and retry them.", no_args_is_help=True)

WorkflowId = Annotated[
    str, typer.Argument(metavar="ID", help="An id, or the first 8 characters of it or more.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids only.")]

_SHORTEST = 8
_MOST_IN_A_PAGE = 200


@app.command("list")
def list_(
    *,
    name: Annotated[str | None, typer.Option(help="Only workflows of this name.")] = None,
    state: Annotated[
        str | None, typer.Option(help="running, succeeded, failed or canceled.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, newest first.")] = 50,
    quiet: Quiet = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List workflows, newest first."""
    from jobforge import calls
    from jobforge.workflow import WorkflowFilter

    which = WorkflowFilter(name, state)
    found: list[WorkflowInfo] = []
    with session(Way(database_url, server, api_key), tenant) as scope:
        while len(found) < limit:
            size = min(limit - len(found), _MOST_IN_A_PAGE)
            before = found[-1].id if found else None
            page = scope.run(calls.list_workflows(which, limit=size, before=before))
            found += page
            if len(page) < size:
                break
    if quiet:
        output.print_ids(each.id for each in found)
        return
    rows = [_document(each) if as_json else _line(each) for each in found]
    output.print_rows(rows, as_json=as_json)


@app.command()
def show(
    workflow: WorkflowId,
    *,
    as_graph: Annotated[bool, typer.Option("--graph", help="Draw what comes after what.")] = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show a workflow and its nodes. Secrets in it are hidden."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        detail = scope.run(calls.get_workflow(_find(scope, workflow)))
    if as_json:
        output.print_json(_whole(detail))
        return
    _print_head(detail)
    if as_graph:
        _print_graph(detail)
    else:
        output.print_rows(list(map(_node, detail.nodes)), as_json=False)


@app.command()
def cancel(
    workflow: WorkflowId,
    *,
    reason: Annotated[str | None, typer.Option(help="Kept with its jobs.")] = None,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Cancel what is left of a workflow; jobs that run are asked to stop."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        found = _find(scope, workflow)
        state = scope.run(calls.cancel_workflow(found, reason=reason))
    output.note(f"{found} {state}")


@app.command()
def retry(
    workflow: WorkflowId,
    *,
    from_node: Annotated[
        str | None,
        typer.Option("--from", metavar="NODE", help="That node and all that come after it."),
    ] = None,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Run again what did not succeed, or everything from a node on."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        found = _find(scope, workflow)
        jobs = scope.run(calls.retry_workflow(found, from_node=from_node))
    output.note(f"{found} runs {jobs} jobs again")


def _find(scope: Session, text: str) -> UUID:
    """The workflow whose id this is, or starts with."""
    from jobforge import calls

    digits = text.replace("-", "").lower()
    if len(digits) < _SHORTEST or set(digits) - set("0123456789abcdef"):
        raise Invalid(f"{text!r} is no id of a workflow, nor its first {_SHORTEST} characters")
    if len(digits) >= 32:
        return UUID(digits[:32])
    listed = scope.run(calls.list_workflows(limit=2, before=UUID(digits.ljust(32, "f"))))
    found = [each.id for each in listed if each.id.hex.startswith(digits)]
    if not found:
        raise NotFound(f"the tenant has no workflow {text}…", hint="jobforge workflows list")
    if len(found) > 1:
        raise Invalid(f"several workflows start with {text}", hint=f"one of them is {found[0]}")
    return found[0]


def _line(workflow: "WorkflowInfo") -> dict[str, Json]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "state": workflow.state,
        "nodes": workflow.size,
        "created_at": workflow.created_at,
        "finished_at": workflow.finished_at,
    }


def _node(node: "NodeInfo") -> dict[str, Json]:
    return {
        "node": node.node,
        "state": node.state,
        "job": node.job_id,
        "definition": node.definition,
        "attempt": node.attempt,
        "started_at": node.started_at,
        "finished_at": node.finished_at,
    }


def _print_head(detail: "WorkflowDetail") -> None:
    from jobforge.redact import redact

    workflow = detail.workflow
    counts = ", ".join(f"{jobs} {state}" for state, jobs in (workflow.counts or {}).items())
    output.print_fields(
        {
            "id": str(workflow.id),
            "name": workflow.name,
            "state": str(workflow.state),
            "jobs": counts,
            "input": redact(workflow.input),
            "correlation_id": workflow.correlation_id,
            "created": workflow.created_at,
            "finished": workflow.finished_at,
            "result": redact(detail.result),
        }
    )
    typer.echo("")


def _print_graph(detail: "WorkflowDetail") -> None:
    states = {node.node: node.state for node in detail.nodes}
    for line in graph.draw(states, detail.edges):
        counts = Counter(line.states)
        said = next(iter(counts)) if len(line.states) == 1 else _counted(counts)
        label = f"  {output.clean(line.label)}  {said}" if line.label else ""
        typer.echo(f"{line.signs}{label}")
    if not detail.is_whole:
        output.note(f"these are the first {len(detail.nodes)} nodes")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {state}" for state, number in counts.items())


def _whole(detail: "WorkflowDetail") -> dict[str, Json]:
    from jobforge.redact import redact

    nodes = [asdict(node) | {"error": redact(node.error)} for node in detail.nodes]
    edges = [list(edge) for edge in detail.edges]
    document = {"workflow": _document(detail.workflow), "nodes": nodes, "edges": edges}
    return {**document, "result": redact(detail.result), "is_whole": detail.is_whole}


def _document(workflow: "WorkflowInfo") -> dict[str, Json]:
    from jobforge.redact import redact

    hidden = {"input": redact(workflow.input), "callbacks": redact(workflow.callbacks)}
    return asdict(workflow) | hidden
