"""A job that others want to hear of. See README.md.

jobforge dev examples/webhooks/app.py
"""

from jobforge import Context, Dead, JobForge

jf = JobForge()


@jf.job(queue="billing")
def settle_invoice(ctx: Context, number: int) -> dict[str, int]:
    """Settles an invoice; there is none below 1, however often one tries."""
    if number < 1:
        raise Dead(f"there is no invoice {number}")
    ctx.log.info("settled", number=number)
    return {"number": number}
