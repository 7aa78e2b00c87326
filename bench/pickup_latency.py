"""How soon a job starts: in an idle worker, and under a steady load."""

import start_times
from bench_servers import Stage
from compared_side import Side, marks_file
from measurements import Measured, percentile
from run_sizes import Size

P50, P95, P99 = "pick-up p50 ms", "pick-up p95 ms", "pick-up p99 ms"
STEADY = (500, 2_000)  # jobs per second
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_WARM_SHARE = 0.2  # of the time, before it counts


def steady_name(rate: int, share: str) -> str:
    return f"at {rate:,} jobs per second, {share} ms"


def reached_name(rate: int) -> str:
    """How many of them the side's own call enqueued."""
    return f"of {rate:,} jobs per second, enqueued/s"


def latency(stage: Stage, side: Side, size: Size) -> Measured:
    """One job after the other, 20 to 80 ms apart."""
    with (
        side.fresh(stage) as url,
        marks_file() as (_, env),
        side.working(url, env=env),
    ):
        answer = side.ask("latency", url, str(size.latency), env=env)
    sample = [seconds * 1000 for seconds in answer["latencies"]]
    return {
        name: [percentile(sample, share)]
        for name, share in zip((P50, P95, P99), _SHARES.values(), strict=True)
    }


def steady_500(stage: Stage, side: Side, size: Size) -> Measured:
    return _steady(stage, side, 500, size.steady_s)


def steady_2000(stage: Stage, side: Side, size: Size) -> Measured:
    return _steady(stage, side, 2_000, size.steady_s)


def _steady(stage: Stage, side: Side, rate: int, seconds: int) -> Measured:
    """Jobs come in small batches, a hundred a second, whether the worker keeps up or not."""
    with side.fresh(stage) as url:
        delays, reached = delays_under(stage, side, url, rate=rate, seconds=seconds)
    sample = delays[int(len(delays) * _WARM_SHARE) :]
    measured = {
        steady_name(rate, name): [percentile(sample, share)] for name, share in _SHARES.items()
    }
    return measured | {reached_name(rate): [reached]}


def delays_under(  # noqa: PLR0913 - where, who, and what
    stage: Stage,
    side: Side,
    url: str,
    *,
    rate: int,
    seconds: int,
    more: dict[str, str] | None = None,
) -> tuple[list[float], float]:
    """Milliseconds until each job of a steady load started, and the rate that was enqueued."""
    with marks_file() as (path, env):
        env |= {start_times.DELAYS: "1", **(more or {})}
        with side.awake(stage, url, env) as workers:
            answer = side.ask("steady", url, str(rate), str(seconds), env=env)
            workers.until(lambda: start_times.count(path) >= answer["sent"])
        delays = [delay * 1000 for delay in start_times.read(path)]
    return delays, answer["sent"] / answer["seconds"]
