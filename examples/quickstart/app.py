"""Four jobs to try: one succeeds, one fails and recovers, one takes long, one waits to be canceled.
A fifth comes by itself every minute.

jobforge dev examples/quickstart/app.py
"""

import asyncio
import time

from jobforge import Context, JobForge, Retry

jf = JobForge()  # JOBFORGE_DATABASE_URL, or what `jobforge dev` runs


@jf.job(queue="mail", retry=Retry(max_attempts=8), timeout=30)
async def send_welcome(ctx: Context, to: str, name: str) -> str:
    """Greets somebody."""
    ctx.log.info("sending", to=to)
    await asyncio.sleep(0.1)  # a mail server
    await ctx.progress(1, 1, "sent")
    return f"Welcome, {name}!"


@jf.job(retry=Retry(max_attempts=5, base=0.5))
def fetch_rates(ctx: Context, fails: int = 2) -> dict[str, float]:
    """Fails that many times, then recovers: each attempt comes after a longer wait."""
    if ctx.attempt <= fails:
        raise ConnectionError(f"no answer at attempt {ctx.attempt}")
    return {"EUR": 1.0, "USD": 1.16}


@jf.job(queue="reports", timeout=600)
def make_report(ctx: Context, pages: int = 20) -> str:
    """Takes a while and says how far it is."""
    for page in range(1, pages + 1):
        ctx.check()
        time.sleep(0.2)
        ctx.progress(page, pages, f"page {page}")
    return f"{pages} pages"


@jf.job(queue="reports")
def watch_folder(ctx: Context) -> None:
    """Goes on until somebody cancels it, and tidies up before it ends."""
    ctx.log.info("watching")
    while not ctx.cancelled:
        time.sleep(0.1)
    ctx.log.info("tidied up")
    ctx.check()


@jf.job(cron="* * * * *", tenant="*", retry=Retry(max_attempts=3, base=2))
def count_orders(ctx: Context) -> str:
    """Every minute, so that something moves; at every fifth its first attempt fails."""
    if time.gmtime().tm_min % 5 == 0 and ctx.attempt == 1:
        raise TimeoutError("the shop does not answer")
    for shelf in range(1, 11):
        ctx.log.info("counting", shelf=shelf)
        ctx.progress(shelf, 10)
        time.sleep(0.3)
    return "10 shelves"
