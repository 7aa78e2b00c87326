"""A report every minute, and a nightly job that never overlaps itself. See README.md.

jobforge dev examples/schedules/app.py
"""

from jobforge import Context, JobForge

jf = JobForge(tenant="acme")


@jf.job(cron="* * * * *", payload={"time": "{{schedule.scheduled_for}}"})
def every_minute(ctx: Context, time: str) -> str:
    """Says for which minute it was made."""
    ctx.log.info("a minute", time=time)
    return f"made for {time}"


@jf.job(cron="30 2 * * *", tz="America/New_York", overlap="skip", catch_up="none")
def nightly(ctx: Context) -> str:
    """Half past two is skipped once a year, and shown twice once a year; it runs each night."""
    ctx.log.info("a night")
    return "done"
