"""A job that asks another service to ship an order. See README.md.

Run it: jobforge dev examples/connectors/app.py
"""

from jobforge import Context, JobForge

jf = JobForge()


@jf.job
async def pay(ctx: Context, order: int) -> str:
    """Take the payment, and request shipping in a separate job, which is retried if it fails."""
    shipping = jf.connector("http.request").using(key=f"ship-{order}")
    handle = await shipping.aenqueue(
        config="shipping", url="orders", method="POST", body={"id": order}
    )
    ctx.log.info("shipping requested", job=str(handle.id))
    return str(handle.id)
