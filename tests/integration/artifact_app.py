"""Jobs whose payloads and results are too large for a row, isolated and inline."""

from dataclasses import dataclass
from typing import Any

from jobforge import Context, JobForge
from jobforge.sdk.definition import CallableDefinition

Jobs = CallableDefinition[..., Any, ..., Any]


@dataclass(frozen=True, slots=True)
class ArtifactJobs:
    double: Jobs
    repeat: Jobs
    pass_on: Jobs
    count: Jobs
    count_own: Jobs


def define(app: JobForge, notes: list[Any] | None = None) -> ArtifactJobs:
    """Define the jobs on any app; hooks append their results to `notes`."""

    @app.job()
    def double(text: str) -> str:
        return text + text

    @app.job(isolation="inline")
    async def repeat(text: str, times: int) -> list[str]:
        return [text] * times

    @app.job()
    def pass_on(size: int) -> str:
        return str(double.enqueue(text="p" * size).id)

    @app.job()
    def count(ctx: Context) -> list[int]:
        return list(map(len, ctx.parents.results))

    @app.job()
    def count_own(ctx: Context) -> list[int]:
        created = ctx.enqueue(repeat, text="r" * 10_000, times=120)
        return list(map(len, ctx.gather([created])))

    if notes is not None:

        @repeat.on_success
        async def tell(ctx: Any, result: Any) -> None:
            notes.append((ctx.payload, result))

    return ArtifactJobs(double, repeat, pass_on, count, count_own)


jf = JobForge()
define(jf)
