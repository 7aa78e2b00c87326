"""A job for every minute, and a nightly job that never overlaps itself. See README.md.

Run it: jobforge dev examples/schedules/app.py
"""

from jobforge import Context, JobForge

jf = JobForge(tenant="acme")


@jf.job(cron="* * * * *", payload={"time": "{{schedule.scheduled_for}}"})
def every_minute(ctx: Context, time: str) -> str:
    """Log the minute for which the schedule enqueued this job."""
    ctx.log.info("every minute", time=time)
    return f"created for {time}"


@jf.job(cron="30 2 * * *", tz="America/New_York", overlap="skip", catch_up="none")
def nightly(ctx: Context) -> str:
    """Run once per night, also when 02:30 does not exist or occurs twice as the clocks change."""
    ctx.log.info("every night")
    return "done"
