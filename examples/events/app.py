"""Two jobs that event triggers enqueue when an order is paid, one declared here. See README.md.

Run it: jobforge dev examples/events/app.py
"""

from jobforge import Context, JobForge

jf = JobForge(tenant="acme")


@jf.job(
    queue="shipping",
    on_event="order.paid",
    payload={"order": "{{event.order}}", "to": "{{event.address.city}}"},
)
def ship(ctx: Context, order: int, to: str) -> str:
    """Ship the order to this city."""
    ctx.log.info("shipping", order=order)
    return f"order {order} to {to}"


@jf.job(queue="mail")
def thank(ctx: Context, to: str, total: float) -> str:
    """Thank the buyer of a large order."""
    ctx.log.info("thanking", to=to)
    return f"Dear {to}, thank you for {total:.2f}!"
