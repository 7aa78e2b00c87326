"""Two jobs that event triggers enqueue when an order is paid. See README.md.

Run it: jobforge dev examples/events/app.py
"""

from jobforge import Context, JobForge

jf = JobForge()


@jf.job(queue="shipping")
def ship(ctx: Context, order: int, to: str) -> str:
    """Ship the order to this city."""
    ctx.log.info("shipping", order=order)
    return f"order {order} to {to}"


@jf.job(queue="mail")
def thank(ctx: Context, to: str, total: float) -> str:
    """Thank the buyer of a large order."""
    ctx.log.info("thanking", to=to)
    return f"Dear {to}, thank you for {total:.2f}!"
