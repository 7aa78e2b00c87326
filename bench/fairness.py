"""Effect of one tenant's flood on other tenants, and the cost of limits.

The other job systems have no tenants: there the small jobs wait in the same queue as the flood.
"""

import json
from uuid import UUID

import psycopg
from bench_servers import BenchServers, Connection, analyze_and_checkpoint
from compared_side import Side
from drain import Drain
from measurements import Measurements, percentile
from pickup_latency import measure_delays
from run_sizes import Size

CALM_P50, CALM_P99 = "small tenants' wait p50 ms", "small tenants' wait p99 ms"
FLOOD_P50, FLOOD_P99 = "beside a flood, p50 ms", "beside a flood, p99 ms"
BESIDE_FULL_CAP, UNDER_CAP = "uncapped, beside a full cap/s", "under a cap/s"

_PROBES = 100  # jobs per second of the small tenants
_SMALL_TENANTS = {"BENCH_TENANTS": "20"}
_TENANT = UUID(int=1)
_ENQUEUE = "select count(*) from jobforge.enqueue_jobs(%s::jsonb, %s)"
_OVERRIDE = "select jobforge.override_definition(%s, %s::jsonb)"
_WAITING_JOBS = 1_000


def flood(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure waits of small tenants' jobs, first alone, then beside another tenant's backlog."""
    with side.fresh_store(servers) as url:
        calm = _measure_waits(servers, side, url, size)
    with side.fresh_store(servers) as url:
        side.run_program("bulk", url, str(side.scale_jobs("flood", size.flood)))
        with psycopg.connect(url, autocommit=True) as conn:
            analyze_and_checkpoint(conn)
        flooded = _measure_waits(servers, side, url, size)
    return {
        CALM_P50: [percentile(calm, 0.5)],
        CALM_P99: [percentile(calm, 0.99)],
        FLOOD_P50: [percentile(flooded, 0.5)],
        FLOOD_P99: [percentile(flooded, 0.99)],
    }


def caps(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure drains beside a full cap and under a cap. The drain without a cap is `drain`."""
    measured = {}
    for name, prepare in ((BESIDE_FULL_CAP, _fill_a_cap), (UNDER_CAP, _cap)):
        with side.fresh_store(servers) as url:
            with psycopg.connect(url, autocommit=True) as conn:
                prepare(conn)
            measured[name] = [Drain(side, size.drain).run(servers, url).rate]
    return measured


def _measure_waits(servers: BenchServers, side: Side, url: str, size: Size) -> list[float]:
    delays, _ = measure_delays(
        servers, side, url, rate=_PROBES, seconds=size.flood_s, extra_env=_SMALL_TENANTS
    )
    return delays


def _fill_a_cap(conn: Connection) -> None:
    """Fill the cap of another definition in the same queue: one job runs, many wait."""
    conn.execute(_OVERRIDE, ["wait_forever", '{"max_running": 1}'])
    jobs = [
        {"definition": "wait_forever", "payload": {"n": number}} for number in range(_WAITING_JOBS)
    ]
    conn.execute(_ENQUEUE, [json.dumps(jobs), _TENANT])


def _cap(conn: Connection) -> None:
    """Set a cap that is above the number of slots, so that only the counting costs time."""
    conn.execute(_OVERRIDE, ["noop", '{"max_running": 2000}'])
