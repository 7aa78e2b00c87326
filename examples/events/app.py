"""An order is paid, and two jobs come of it. See README.md.

jobforge dev examples/events/app.py
"""

from jobforge import Context, JobForge

jf = JobForge()


@jf.job(queue="shipping")
def ship(ctx: Context, order: int, to: str) -> str:
    """Sends a parcel."""
    ctx.log.info("shipping", order=order)
    return f"order {order} to {to}"


@jf.job(queue="mail")
def thank(ctx: Context, to: str, total: float) -> str:
    """Thanks somebody who bought much."""
    ctx.log.info("thanking", to=to)
    return f"Dear {to}, thank you for {total:.2f}!"
