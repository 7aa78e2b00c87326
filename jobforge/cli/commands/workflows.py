"""`jobforge workflows`: list, inspect, cancel and retry workflows."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output, workflow_graph
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson, Quiet, check_choice
from jobforge.cli.tenant_session import IdArgument, TenantSession, with_tenant_session
from jobforge.errors import Json

if TYPE_CHECKING:
    from jobforge.types.workflows import NodeInfo, WorkflowDetail, WorkflowInfo

app = typer.Typer(help="List, inspect, cancel and retry workflows.", no_args_is_help=True)

_MOST_IN_A_PAGE = 200
_STATES = ("running", "succeeded", "failed", "canceled")


@app.command("list")
@with_tenant_session
@with_listing_format
def list_(
    scope: TenantSession,
    form: ListingFormat,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name to match.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help="State to match: running, succeeded, failed or canceled."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of results.")] = 50,
    quiet: Quiet = False,
) -> None:
    """List workflows, newest first."""
    from jobforge import calls
    from jobforge.types.workflows import WorkflowFilter, WorkflowInfo

    if state is not None:
        check_choice("state", state, _STATES)
    which = WorkflowFilter(name, state)
    found: list[WorkflowInfo] = []
    while len(found) < limit:
        size = min(limit - len(found), _MOST_IN_A_PAGE)
        before = found[-1].id if found else None
        page = scope.run(calls.list_workflows(which, limit=size, before=before))
        found += page
        if len(page) < size:
            break
    print_listing(found, WorkflowInfo, _to_row, _to_document, form=form, quiet=quiet)


@app.command()
@with_tenant_session
def show(
    scope: TenantSession,
    workflow: IdArgument,
    *,
    as_graph: Annotated[bool, typer.Option("--graph", help="Draw the graph of the nodes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a workflow and its nodes. Secrets are redacted."""
    from jobforge import calls

    detail = scope.run(calls.get_workflow(scope.find_id("workflow", workflow)))
    if as_json:
        output.print_json(_to_detail_document(detail))
        return
    _print_head(detail)
    if as_graph:
        _print_graph(detail)
    else:
        output.print_rows(list(map(_to_node_row, detail.nodes)), as_json=False)


@app.command()
@with_tenant_session
def cancel(
    scope: TenantSession,
    workflow: IdArgument,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason, stored with the jobs.")
    ] = None,
) -> None:
    """Cancel the unfinished jobs of a workflow. Running jobs are asked to stop."""
    from jobforge import calls

    found = scope.find_id("workflow", workflow)
    state = scope.run(calls.cancel_workflow(found, reason=reason))
    output.note(f"Workflow {found}: {state}")


@app.command()
@with_tenant_session
def retry(
    scope: TenantSession,
    workflow: IdArgument,
    *,
    from_node: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NODE",
            help="Node to retry, with all nodes after it. Default: all that did not succeed.",
        ),
    ] = None,
) -> None:
    """Retry the jobs of a workflow that did not succeed."""
    from jobforge import calls

    found = scope.find_id("workflow", workflow)
    jobs = scope.run(calls.retry_workflow(found, from_node=from_node))
    output.note(f"Workflow {found}: retrying {jobs} job{'s' * (jobs != 1)}")


def _to_row(workflow: "WorkflowInfo") -> dict[str, Json]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "state": workflow.state,
        "nodes": workflow.size,
        "created_at": workflow.created_at,
        "finished_at": workflow.finished_at,
    }


def _to_node_row(node: "NodeInfo") -> dict[str, Json]:
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
    for line in workflow_graph.draw(states, detail.edges):
        counts = Counter(line.states)
        state_text = next(iter(counts)) if len(line.states) == 1 else _format_counts(counts)
        label = f"  {output.clean(line.label)}  {state_text}" if line.label else ""
        typer.echo(f"{line.signs}{label}")
    if not detail.has_all_nodes:
        output.note(f"Showing only the first {len(detail.nodes)} nodes")


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {state}" for state, number in counts.items())


def _to_detail_document(detail: "WorkflowDetail") -> dict[str, Json]:
    from jobforge.redact import redact

    nodes = [asdict(node) | {"error": redact(node.error)} for node in detail.nodes]
    edges = [list(edge) for edge in detail.edges]
    document = {"workflow": _to_document(detail.workflow), "nodes": nodes, "edges": edges}
    return {**document, "result": redact(detail.result), "has_all_nodes": detail.has_all_nodes}


def _to_document(workflow: "WorkflowInfo") -> dict[str, Json]:
    from jobforge.redact import redact

    hidden = {"input": redact(workflow.input), "callbacks": redact(workflow.callbacks)}
    return asdict(workflow) | hidden
