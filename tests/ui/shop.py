"""The app of the dashboard's tests: the jobs of a shop. The file bank-is-down in its worker's
folder makes the bank unreachable. Tests and pictures show the docstrings of the jobs.
"""

import asyncio
from pathlib import Path

from jobforge import Context, JobForge, Retry

jf = JobForge()

_BANK_IS_DOWN = Path("bank-is-down")


@jf.job(queue="mail", isolation="inline", retry=Retry(max_attempts=3))
async def send_welcome(ctx: Context, to: str, name: str = "Ada") -> str:
    """Greet a new customer."""
    ctx.log.info("rendering the template", template="welcome")
    ctx.log.info("sending", to=to)
    await ctx.progress(1, 1, "sent")
    return f"Welcome, {name}!"


@jf.job(queue="payments", isolation="inline", retry=Retry(max_attempts=1))
async def charge_card(ctx: Context, order: int, card: str = "visa") -> dict[str, str]:
    """Charge an order to the card."""
    ctx.log.info("asking the bank", order=order)
    if card == "amex":
        raise ValueError(f"card type amex is not accepted (attempt {ctx.attempt})")
    if card not in {"visa", "master"}:
        raise ValueError(f"card type {card} is not accepted")
    if _BANK_IS_DOWN.exists():  # noqa: ASYNC240 - it takes no time
        ctx.log.error("the bank does not respond")
        raise ConnectionError("no response from bank.example within 5 s")
    return {"receipt": f"R-{order}"}


@jf.job(queue="reports", isolation="inline", timeout=600)
async def make_report(ctx: Context, month: str, pages: int = 200, page_s: float = 0.2) -> str:
    """Create the monthly report, page by page."""
    for page in range(1, pages + 1):
        ctx.log.info("page written", page=page, month=month)
        await ctx.progress(page, pages, f"page {page}")
        await asyncio.sleep(page_s)
        ctx.check()
    return f"{pages} pages"


@jf.job(queue="photos", isolation="inline")
async def resize(photo: int) -> str:
    """Resize a photo for the web."""
    return f"photo-{photo}.webp"


@jf.job(queue="photos", isolation="inline", retry=Retry(max_attempts=1))
async def publish(album: str, fails: bool = False) -> str:  # noqa: FBT001, FBT002 - of a payload
    """Publish an album on the site."""
    if fails:
        raise PermissionError(f"the album {album} is locked")
    return f"https://shop.example/albums/{album}"


@jf.job(queue="orders", isolation="inline")
async def ship_order(ctx: Context, order: int) -> str:
    """Pack an order and wait until the parcel is picked up."""
    label = await ctx.step("print the label", _label, order)
    await ctx.step("pack", _label, order)
    await ctx.wait_for_event("parcel.picked", {"order": order}, timeout=86_400)
    return label


async def _label(order: int) -> str:
    return f"DE-{order}"
