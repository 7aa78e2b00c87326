"""Four jobs to enqueue, and one with a schedule. See README.md.

One job succeeds, one fails twice and is retried, one reports its progress, and one runs until you
cancel it. The schedule enqueues the fifth job every minute.

Run it: jobforge dev examples/quickstart/app.py
"""

import asyncio
import time

from jobforge import Context, JobForge, Retry

jf = JobForge()  # connects to JOBFORGE_DATABASE_URL, or to the Postgres of `jobforge dev`


@jf.job(queue="mail", retry=Retry(max_attempts=8), timeout=30)
async def send_welcome(ctx: Context, to: str, name: str) -> str:
    """Send a welcome message to a new user."""
    ctx.log.info("sending", to=to)
    await asyncio.sleep(0.1)  # a real app would call a mail service
    await ctx.progress(1, 1, "sent")
    return f"Welcome, {name}!"


@jf.job(retry=Retry(max_attempts=5, base=0.5))
def fetch_rates(ctx: Context, fails: int = 2) -> dict[str, float]:
    """Fail in the first `fails` attempts, then succeed. The delay before each retry grows."""
    if ctx.attempt <= fails:
        raise ConnectionError(f"no response in attempt {ctx.attempt}")
    return {"EUR": 1.0, "USD": 1.16}


@jf.job(queue="reports", timeout=600)
def make_report(ctx: Context, pages: int = 20) -> str:
    """Create a report page by page, and report the progress."""
    for page in range(1, pages + 1):
        ctx.check()
        time.sleep(0.2)
        ctx.progress(page, pages, f"page {page}")
    return f"{pages} pages"


@jf.job(queue="reports")
def watch_folder(ctx: Context) -> None:
    """Run until the job is canceled, and clean up before stopping."""
    ctx.log.info("watching")
    while not ctx.cancelled:
        time.sleep(0.1)
    ctx.log.info("cleaned up")
    ctx.check()


@jf.job(cron="* * * * *", tenant="*", retry=Retry(max_attempts=3, base=2))
def count_orders(ctx: Context) -> str:
    """Count orders every minute; in every fifth minute, the first attempt fails."""
    if time.gmtime().tm_min % 5 == 0 and ctx.attempt == 1:
        raise TimeoutError("the shop does not respond")
    for shelf in range(1, 11):
        ctx.log.info("counting", shelf=shelf)
        ctx.progress(shelf, 10)
        time.sleep(0.3)
    return "10 shelves"
