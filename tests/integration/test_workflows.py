"""Workflows and batches that apps create on a database, with handlers that run."""

from collections.abc import Iterator
from types import ModuleType
from uuid import UUID

import pytest
from integration.example_programs import load_example

from jobforge import Context, Dead, JobForge
from jobforge.embedded import PostgresServer
from jobforge.errors import Conflict, Invalid, InvalidPayload, JobFailed, Json, NotFound
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.testing.drain import Drained
from jobforge.types.jobs import State
from jobforge.types.workflows import WorkflowState

jf = JobForge(database_url="postgresql://nobody@127.0.0.1:1/nowhere")
ran: list[str] = []


@jf.job(retry=1)
def work(text: str = "") -> str:
    ran.append(text)
    if text == "fail":
        raise Dead("as it was told")
    return text


@jf.job(isolation="inline")
async def join(ctx: Context) -> list[str]:
    parents = await ctx.parents
    return [f"{name}={parent.result}" for name, parent in parents.items()]


@jf.job
def split(ctx: Context, parts: int) -> None:
    ctx.workflow.add(*(work.using(node=f"part-{n}").args(f"part {n}") for n in range(parts)))


@jf.job(isolation="inline")
async def spread(ctx: Context, left: int) -> None:
    """Add one job to its own batch, as long as some are left."""
    if left:
        await (await ctx.workflow).aadd(spread.args(left - 1))


@jf.job
def done(ctx: Context) -> int:
    return len(ctx.parents)


@pytest.fixture(scope="session")
def jobforge_postgres(server: PostgresServer) -> Postgres:
    """Use this run's server instead of another one."""
    return Postgres(server.url(), is_durable=False)


@pytest.fixture
def kit(jf_test: Kit) -> Iterator[Kit]:
    ran.clear()
    jf_test.use(jf)
    with jf.tenant(jf_test.tenant("acme")):
        yield jf_test


def results(drained: Drained, definition: str) -> list[Json]:
    return [ran.result for ran in drained.jobs if ran.job.definition == definition]


def test_a_workflow_is_created_once(kit: Kit) -> None:
    with jf.workflow("once") as wf:
        work.node("a")
    with pytest.raises(Conflict, match="already"):
        wf.enqueue()
    kit.assert_enqueued(work, count=1)


def test_nodes_of_one_definition_are_numbered(kit: Kit) -> None:
    with jf.workflow("numbers"):
        taken = work.using(node="work-2").node("taken")
        nodes = [taken, *(work.node(str(number)) for number in range(3))]
    assert [node.name for node in nodes] == ["work-2", "work", "work-3", "work-4"]
    kit.assert_enqueued(work, count=len(nodes))


def test_a_node_has_the_results_of_its_parents(kit: Kit) -> None:
    with jf.workflow("diamond") as wf:
        first = work.node("a")
        sides = [work.using(after=first, node=side).node(side) for side in ("left", "right")]
        last = join.using(after=sides).node()
    kit.drain()
    assert last.handle.result() == ["left=left", "right=right"]
    assert wf.handle.result() == {"join": ["left=left", "right=right"]}
    assert ran == ["a", "left", "right"]


def test_a_job_may_depend_on_handles_and_ids(kit: Kit) -> None:
    first, second = work.enqueue("a"), work.enqueue("b")
    child = join.using(after=[first, second.id]).enqueue()
    assert child.job().state is State.BLOCKED
    kit.drain()
    assert child.result() == [f"{first.id}=a", f"{second.id}=b"]


def test_nothing_is_enqueued_when_the_block_fails(kit: Kit) -> None:
    with pytest.raises(InvalidPayload), jf.workflow("broken"):
        work.node(work.node("a"))  # type: ignore[arg-type] # as somebody might
    kit.refute_enqueued(work)


def test_jobs_added_by_a_running_job_are_waited_for(kit: Kit) -> None:
    with jf.workflow("fan-out") as wf:
        parts = split.node(3)
        joined = join.using(after=parts).node()
    kit.drain()
    names = ["split=None", *(f"part-{n}=part {n}" for n in range(3))]
    assert sorted(joined.handle.result()) == sorted(names)
    assert wf.handle.wait().workflow.counts == {"succeeded": 5}


def test_an_inner_workflow_is_canceled_and_retried_with_the_outer_one(kit: Kit) -> None:
    with jf.workflow("outer") as wf:
        first = work.node("a")
        with wf.workflow("inner", after=first) as inner:
            work.using(node="x").node("fail")
        join.using(after=inner).node()
    kit.drain()
    with pytest.raises(JobFailed, match="inner/x, join"):
        wf.handle.result()
    assert wf.handle.retry() == 2
    assert wf.handle.cancel("enough") is WorkflowState.CANCELED
    assert wf.handle.retry(from_node="inner") == 2
    assert wf.handle.detail().workflow.state is WorkflowState.RUNNING


def test_a_node_of_another_workflow_is_refused(kit: Kit) -> None:
    with jf.workflow("one"):
        stranger = work.node("a")
    with pytest.raises(Invalid, match="nodes of the same workflow"), jf.workflow("two"):
        work.using(after=stranger).node("b")
    with pytest.raises(Conflict, match="inside a workflow"):
        work.node("c")
    assert work.using(after=stranger).enqueue("d").job().state is State.BLOCKED
    with pytest.raises(NotFound):
        work.using(after=UUID(int=7)).enqueue("e")
    kit.drain()


def test_a_batch_grows_while_it_runs_and_calls_back_once(kit: Kit) -> None:
    with jf.batch(on_success=done.args(), on_failure=work.args("fail")) as batch:
        batch.add(spread.args(3), spread.args(0))
    drained = kit.drain()
    assert batch.handle.progress().counts == {"succeeded": 5}
    assert results(drained, "done") == [5]
    kit.refute_enqueued(work)
    with pytest.raises(Conflict):
        batch.handle.add(work.args("late"))


@pytest.mark.anyio
async def test_workflows_and_batches_can_be_created_in_async_code(kit: Kit) -> None:
    async with jf.workflow("async") as wf:
        work.node("a")
    async with jf.batch(open=True) as batch:
        await batch.aadd(work.args("b"))
    kit.drain()
    assert await wf.handle.aresult() == {"work": "a"}
    assert (await batch.handle.await_()).state is WorkflowState.SUCCEEDED
    assert await (await jf.aworkflow_of(wf.id)).aresult() == {"work": "a"}
    assert (await (await jf.abatch_of(batch.handle.id)).aprogress()).counts == {"succeeded": 1}
    await jf.aclose()


def test_a_handle_created_from_an_id_works_like_the_original(kit: Kit) -> None:
    with jf.workflow("earlier") as wf:
        work.node("a")
    with jf.batch() as batch:
        batch.add(work.args("b"))
    again = jf.batch_of(batch.handle.id)
    again.add(work.args("c"))
    kit.drain()
    assert jf.workflow_of(wf.id).result() == {"work": "a"}
    assert again.wait().counts == {"succeeded": 2}
    other = kit.tenant("other")
    for foreign in (jf.workflow_of(wf.id, tenant=other), jf.batch_of(again.id, tenant=other)):
        with pytest.raises(NotFound):
            foreign.cancel()


@pytest.mark.anyio
async def test_async_code_can_cancel_and_retry(kit: Kit) -> None:
    async with jf.workflow("async") as wf:
        work.using(node="first").node("a")
    async with jf.batch() as batch:
        await batch.aadd(work.args("b"))
    assert await wf.handle.acancel("enough") is WorkflowState.CANCELED
    assert (await wf.handle.adetail()).nodes[0].state == State.CANCELED
    assert await wf.handle.aretry("first") == 1
    assert await batch.handle.acancel("enough") is WorkflowState.CANCELED
    assert (await batch.handle.aprogress()).counts == {"canceled": 1}
    assert [done.job.payload for done in kit.drain().jobs] == [{"text": "a"}]
    await jf.aclose()


def example(name: str, kit: Kit) -> ModuleType:
    module = load_example("workflows", f"{name}.py")
    kit.use(module.jf)
    return module


def test_the_etl_example_loads_all_sources(kit: Kit) -> None:
    nightly = example("etl", kit).nightly("2026-11-15")
    kit.drain()
    assert nightly.result() == {"report": "2026-11-15: 4 rows"}


def test_the_saga_example_undoes_its_completed_steps(kit: Kit) -> None:
    saga = example("saga", kit)
    good, bad = saga.place(7, "Harbour Lane 3"), saga.place(8, "")
    drained = kit.drain()
    assert good.result() == {"ship": "order 7 is on its way to Harbour Lane 3"}
    assert bad.wait().workflow.state is WorkflowState.FAILED
    undone = ["charge of order 8 was reverted", "reserve of order 8 was reverted"]
    assert results(drained, "undo") == [undone]


def test_the_map_reduce_example_adds_up(kit: Kit) -> None:
    words = example("mapreduce", kit)
    words.count_words(["to be or not", "to be", "that is to"])
    assert results(kit.drain(), "total") == [{"to": 3, "be": 2, "or": 1}]
