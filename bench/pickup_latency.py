"""Time from enqueue to the start of a job: in an idle worker, and under a steady load."""

import start_times
from bench_servers import BenchServers
from compared_side import Side, start_times_file
from measurements import Measurements, percentile
from run_sizes import Size

P50, P95, P99 = "pick-up p50 ms", "pick-up p95 ms", "pick-up p99 ms"
STEADY = (500, 2_000)  # jobs per second
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_WARM_SHARE = 0.2  # share of the jobs, from the first, that does not count


def name_steady(rate: int, share: str) -> str:
    return f"at {rate:,} jobs per second, {share} ms"


def name_reached(rate: int) -> str:
    """Name the figure of the rate that the side's enqueue call reached."""
    return f"of {rate:,} jobs per second, enqueued/s"


def latency(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure one job after the other, 20 to 80 ms apart."""
    with (
        side.fresh_store(servers) as url,
        start_times_file() as (_, env),
        side.run_workers(url, env=env),
    ):
        answer = side.run_program("latency", url, str(size.latency), env=env)
    sample = [seconds * 1000 for seconds in answer["latencies"]]
    return {
        name: [percentile(sample, share)]
        for name, share in zip((P50, P95, P99), _SHARES.values(), strict=True)
    }


def steady_500(servers: BenchServers, side: Side, size: Size) -> Measurements:
    return _steady(servers, side, 500, size.steady_s)


def steady_2000(servers: BenchServers, side: Side, size: Size) -> Measurements:
    return _steady(servers, side, 2_000, size.steady_s)


def _steady(servers: BenchServers, side: Side, rate: int, seconds: int) -> Measurements:
    """Enqueue a hundred small batches per second, whether or not the worker keeps up."""
    with side.fresh_store(servers) as url:
        delays, reached = measure_delays(servers, side, url, rate=rate, seconds=seconds)
    sample = delays[int(len(delays) * _WARM_SHARE) :]
    measured = {
        name_steady(rate, name): [percentile(sample, share)] for name, share in _SHARES.items()
    }
    return measured | {name_reached(rate): [reached]}


def measure_delays(  # noqa: PLR0913 - the load has these parameters
    servers: BenchServers,
    side: Side,
    url: str,
    *,
    rate: int,
    seconds: int,
    extra_env: dict[str, str] | None = None,
) -> tuple[list[float], float]:
    """Return the milliseconds until each job of a steady load started, and the enqueue rate."""
    with start_times_file() as (path, env):
        env |= {start_times.DELAYS: "1", **(extra_env or {})}
        with side.run_ready_worker(servers, url, env) as workers:
            answer = side.run_program("steady", url, str(rate), str(seconds), env=env)
            workers.wait_until(lambda: start_times.count(path) >= answer["sent"])
        delays = [delay * 1000 for delay in start_times.read(path)]
    return delays, answer["sent"] / answer["seconds"]
