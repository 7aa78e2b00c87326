"""Time of a page of jobs over HTTP, with few and with many jobs in the database.

Two databases, with a server each, have jobs of one tenant, half of them queued and half finished,
alternately. The large database has a hundred times as many jobs. One client queries both in turn.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from api_bench import TENANT, ApiBench, alternate
from bench_servers import BenchError, analyze_and_checkpoint
from enqueue_clients import HttpConnection
from sql import Figure

from jobforge.types.api_keys import Role

_PAGE = 50
_WARM = 5
_FILL = """
with chosen as materialized (
    select jobforge_private.nth_id(f.id, n) as id, n, now() as at
      from (select jobforge_private.uuid7() as id) as f, generate_series(1, %(jobs)s) as n
), queued as (
    insert into jobforge.jobs (tenant_id, id, created_at, run_at, queued_at, version, max_attempts,
                               allowance, state, definition, queue, payload)
    select %(tenant)s, id, at, at, at, 1, 5, 5, 'queued', 'noop', 'default',
           jsonb_build_object('n', n)
      from chosen
     where n %% 2 = 0
)
insert into jobforge.finished_jobs (
       tenant_id, id, lease, created_at, run_at, queued_at, started_at, finished_at, worker_id,
       version, attempt, max_attempts, allowance, priority, flags, state, definition, queue, source,
       payload)
select %(tenant)s, id, 1, at, at, at, at, at, %(tenant)s, 1, 1, 5, 5, 0, 0, 'succeeded', 'noop',
       'default', 'manual', jsonb_build_object('n', n)
  from chosen
 where n %% 2 = 1
"""

Query = Callable[[HttpConnection], str]


def pages(bench: ApiBench) -> Iterator[Figure]:
    size = bench.size
    with ExitStack() as stack:
        small = stack.enter_context(_serve_filled_database(bench, size.small))
        large = stack.enter_context(_serve_filled_database(bench, size.large))
        for name, query in _kinds(size.deep_page):
            times: dict[HttpConnection, list[float]] = {small: [], large: []}
            for number in range(size.rounds):
                for side in alternate((small, large), number):
                    times[side].append(_page_ms(side, query(side), size.pages))
            ratios = [b / a for a, b in zip(times[small], times[large], strict=True)]
            yield Figure(
                f"{name}: time with {size.large:,} jobs, ratio to {size.small:,} jobs",
                statistics.median(ratios),
                1.5,
                max(ratios) - min(ratios),
                " → ".join(f"{statistics.median(each):.1f}" for each in times.values()) + " ms",
                lower_is_better=True,
            )


@contextmanager
def _serve_filled_database(bench: ApiBench, jobs: int) -> Iterator[HttpConnection]:
    with bench.start_server() as server:
        with psycopg.connect(server.database, autocommit=True) as conn:
            conn.execute(_FILL, {"jobs": jobs, "tenant": TENANT})
            analyze_and_checkpoint(conn)
        http = HttpConnection(server.address, server.create_key(TENANT, Role.VIEWER))
        try:
            yield http
        finally:
            http.close()


def _kinds(pages_before: int) -> list[tuple[str, Query]]:
    return [
        (f"a page of {_PAGE}", lambda _: ""),
        (f"a page of {_PAGE} in one state", lambda _: "&state=succeeded"),
        (
            f"the page after {pages_before} others",
            lambda http: f"&cursor={_cursor(http, pages_before)}",
        ),
    ]


def _cursor(http: HttpConnection, pages_before: int) -> str:
    page: dict[str, Any] = {}
    for _ in range(pages_before):
        query = f"&cursor={page['next']}" if page else ""
        page = json.loads(_ask(http, query))
    return str(page["next"])


def _page_ms(http: HttpConnection, query: str, count: int) -> float:
    times = []
    for number in range(-_WARM, count):
        start = time.perf_counter()
        answer = _ask(http, query)
        if number >= 0:
            times.append((time.perf_counter() - start) * 1000)
        if answer.count(b'"created_at"') != _PAGE:
            raise BenchError(f"a page of {_PAGE} jobs was {answer[:1000]!r}")
    return statistics.median(times)


def _ask(http: HttpConnection, query: str) -> bytes:
    return http.request(f"GET /api/v1/jobs?limit={_PAGE}{query}")
