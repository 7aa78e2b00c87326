"""An order as a saga: three dependent jobs. If a job is dead, `undo` reverts the completed ones.

    reserve ─► charge ─► ship          on failure ─► undo

Run it: jobforge dev examples/workflows/saga.py
In another terminal: python examples/workflows/saga.py
"""

from jobforge import Context, Dead, JobForge, WorkflowHandle

jf = JobForge()


@jf.job
def reserve(order: int) -> str:
    return f"2 seats reserved for order {order}"


@jf.job
def charge(order: int) -> str:
    return f"payment of order {order}"


@jf.job
def ship(order: int, address: str) -> str:
    if not address:
        raise Dead("the order has no address")
    return f"order {order} is on its way to {address}"


@jf.job
def undo(ctx: Context, order: int) -> list[str]:
    """Revert the succeeded jobs, last one first. Enqueued once, when the workflow has failed."""
    done = [name for name, step in ctx.parents.items() if step.state == "succeeded"]
    return [f"{name} of order {order} was reverted" for name in reversed(done)]


def place(order: int, address: str) -> WorkflowHandle:
    with jf.workflow("order", on_failure=undo.args(order)) as wf:
        reserved = reserve.node(order)
        charged = charge.using(after=reserved).node(order)
        ship.using(after=charged).node(order, address)
    return wf.handle


if __name__ == "__main__":
    with jf.tenant("acme"):
        print(place(7, address="Harbour Lane 3").result(timeout=30))
        print(place(8, address="").wait(timeout=30).workflow.state)
