"""The app of `jobforge bench`. Its job does nothing, so only JobForge's overhead is measured."""

from jobforge import JobForge

jf = JobForge()


@jf.job(queue="bench", isolation="inline")
async def noop(n: int) -> None:
    del n
