"""The app whose jobs `jobforge bench` runs: they do nothing, so that all else is measured."""

from jobforge import JobForge

jf = JobForge()


@jf.job(queue="bench", isolation="inline")
async def noop(n: int) -> None:
    del n
