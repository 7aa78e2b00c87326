"""`jobforge workflows`: list, inspect, cancel and retry workflows."""

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import output, workflow_graph
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.listing_output import print_listing, read_pages
from jobforge.cli.options import AsJson, ReasonOption, check_choice
from jobforge.cli.shared_options import LISTING, QUIET, TENANT, IdArgument
from jobforge.errors import Json
from jobforge.redact import redact
from jobforge.types.workflows import NodeInfo, WorkflowDetail, WorkflowFilter, WorkflowInfo

app = CommandGroup(TENANT)

_STATES = ("running", "succeeded", "failed", "canceled")


@app.command("list", options=QUIET + LISTING + TENANT)
def list_(
    context: CommandContext,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name to match.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help="State to match: running, succeeded, failed or canceled."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of results.")] = 50,
) -> None:
    """List workflows, newest first."""
    if state is not None:
        check_choice("state", state, _STATES)
    which = WorkflowFilter(name, state)

    def read(size: int, last: WorkflowInfo | None) -> list[WorkflowInfo]:
        return context.run(
            calls.list_workflows(which, limit=size, before=last.id if last else None)
        )

    pages, form = read_pages(read, limit), context.listing_format
    print_listing(pages, WorkflowInfo, _to_row, _to_document, form=form)


@app.command()
def show(
    context: CommandContext,
    workflow: IdArgument,
    *,
    as_graph: Annotated[bool, typer.Option("--graph", help="Draw the graph of the nodes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a workflow and its nodes. Secrets are redacted."""
    detail = context.run(calls.get_workflow(context.session.find_id("workflow", workflow)))
    if as_json:
        output.print_json(_to_detail_document(detail))
        return
    _print_head(detail)
    if as_graph:
        _print_graph(detail)
    else:
        output.print_rows(list(map(_to_node_row, detail.nodes)), as_json=False)


@app.command()
def cancel(
    context: CommandContext,
    workflow: IdArgument,
    *,
    reason: ReasonOption = None,
) -> None:
    """Cancel the unfinished jobs of a workflow. Running jobs are asked to stop."""
    found = context.session.find_id("workflow", workflow)
    state = context.run(calls.cancel_workflow(found, reason=reason))
    output.note(f"Workflow {found}: {state}")


@app.command()
def retry(
    context: CommandContext,
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
    found = context.session.find_id("workflow", workflow)
    jobs = context.run(calls.retry_workflow(found, from_node=from_node))
    output.note(f"Workflow {found}: retrying {jobs} job{'s' * (jobs != 1)}")


def _to_row(workflow: WorkflowInfo) -> dict[str, Json]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "state": workflow.state,
        "nodes": workflow.size,
        "created_at": workflow.created_at,
        "finished_at": workflow.finished_at,
    }


def _to_node_row(node: NodeInfo) -> dict[str, Json]:
    return {
        "node": node.node,
        "state": node.state,
        "job": node.job_id,
        "definition": node.definition,
        "attempt": node.attempt,
        "started_at": node.started_at,
        "finished_at": node.finished_at,
    }


def _print_head(detail: WorkflowDetail) -> None:
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


def _print_graph(detail: WorkflowDetail) -> None:
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


def _to_detail_document(detail: WorkflowDetail) -> dict[str, Json]:
    nodes = [asdict(node) | {"error": redact(node.error)} for node in detail.nodes]
    edges = [list(edge) for edge in detail.edges]
    document = {"workflow": _to_document(detail.workflow), "nodes": nodes, "edges": edges}
    return {**document, "result": redact(detail.result), "has_all_nodes": detail.has_all_nodes}


def _to_document(workflow: WorkflowInfo) -> dict[str, Json]:
    hidden = {"input": redact(workflow.input), "callbacks": redact(workflow.callbacks)}
    return asdict(workflow) | hidden
