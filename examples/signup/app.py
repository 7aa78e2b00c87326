"""A sign-up sequence: one job that runs for days, and continues after restarts. See README.md."""

from datetime import timedelta
from typing import Literal

from jobforge import Context, JobForge
from jobforge.errors import EventTimeout

jf = JobForge()

End = Literal["confirmed", "not confirmed"]


async def send(to: str, text: str) -> None:
    """Print the mail. Replace this with a call of your mail service."""
    print(f"to {to}: {text}")


@jf.job(isolation="inline")
async def sign_up(ctx: Context, address: str) -> End:
    await ctx.step("welcome", send, address, "Welcome! Please confirm your address.")
    if not await confirmed(ctx, address, within=timedelta(days=3)):
        await ctx.step("remind", send, address, "Your address is still not confirmed.")
        if not await confirmed(ctx, address, within=timedelta(days=4)):
            return "not confirmed"
    await ctx.sleep(timedelta(days=1))
    await ctx.step("tips", send, address, "A day with us: what you may have missed.")
    return "confirmed"


async def confirmed(ctx: Context, address: str, within: timedelta) -> bool:
    try:
        await ctx.wait_for_event("address.confirmed", {"address": address}, timeout=within)
    except EventTimeout:
        return False
    return True
