"""A job that has another service ship an order. See README.md.

jobforge dev examples/connectors/app.py
"""

from jobforge import Context, JobForge

jf = JobForge()


@jf.job
async def pay(ctx: Context, order: int) -> str:
    """Takes the money, and asks for shipping: by a job of its own, which is retried by itself."""
    shipping = jf.connector("http.request").using(key=f"ship-{order}")
    handle = await shipping.aenqueue(
        config="shipping", url="orders", method="POST", body={"id": order}
    )
    ctx.log.info("shipping asked for", job=str(handle.id))
    return str(handle.id)
