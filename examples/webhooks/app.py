"""A job whose outcome is sent to a webhook. See README.md.

Run it: jobforge dev examples/webhooks/app.py
"""

from jobforge import Context, Dead, JobForge

jf = JobForge()


@jf.job(queue="billing")
def settle_invoice(ctx: Context, number: int) -> dict[str, int]:
    """Settle an invoice. Numbers below 1 are invalid, so the job fails without a retry."""
    if number < 1:
        raise Dead(f"invoice {number} not found")
    ctx.log.info("settled", number=number)
    return {"number": number}
