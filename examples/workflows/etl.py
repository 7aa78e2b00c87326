"""A nightly load as a workflow: extract and clean three sources in parallel, load them, report.

    extract orders ─► clean ─┐
    extract users  ─► clean ─┼─► load ─► report
    extract rates  ─► clean ─┘

Run it: jobforge dev examples/workflows/etl.py
In another terminal: python examples/workflows/etl.py
"""

from jobforge import Context, JobForge, Retry, WorkflowHandle

jf = JobForge()

Row = dict[str, str | int]

SOURCES: dict[str, list[Row]] = {
    "orders": [{"id": 1, "total": 30}, {"id": 2, "total": 12}],
    "users": [{"id": 7, "name": " Ada "}],
    "rates": [{"id": 1, "currency": "EUR"}],
}


@jf.job(retry=Retry(max_attempts=8))
def extract(source: str) -> list[Row]:
    return SOURCES[source]


@jf.job
def clean(ctx: Context) -> list[Row]:
    (rows,) = ctx.parents.results
    return [
        {name: value.strip() if isinstance(value, str) else value for name, value in row.items()}
        for row in rows
    ]


@jf.job
def load(ctx: Context) -> int:
    """Return the number of rows of all sources. Runs after every `clean` job has succeeded."""
    return sum(len(rows) for rows in ctx.parents.results)


@jf.job
def report(ctx: Context) -> str:
    day = ctx.workflow.input["day"]
    return f"{day}: {ctx.parents['load'].result} rows"


def nightly(day: str) -> WorkflowHandle:
    with jf.workflow("nightly", input={"day": day}) as wf:
        cleaned = [
            clean.using(after=extract.node(source), node=f"clean-{source}").node()
            for source in SOURCES
        ]
        loaded = load.using(after=cleaned).node()
        report.using(after=loaded).node()
    return wf.handle


if __name__ == "__main__":
    with jf.tenant("acme"):
        print(nightly("2026-11-15").result(timeout=30))
