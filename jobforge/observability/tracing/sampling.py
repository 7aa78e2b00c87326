"""Decides which attempts are sampled before a span is created.

With many short jobs only few are sampled, and asking the SDK about each takes as long as running
it. So a worker itself implements the common values of OTEL_TRACES_SAMPLER.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jobforge.observability.tracing.fast_exporter import FastSpanProcessor
    from jobforge.observability.tracing.lazy_span import SdkSpanStarter

_USUAL = "parentbased_always_on"


class Sampling(NamedTuple):
    """Parent-based sampling: follows the enqueuer; jobs without a trace are sampled by `ratio`.

    `span_starter` starts SDK spans for sampled attempts. With a `fast_processor`, only attempts
    whose span is used need one.
    """

    ratio: float
    span_starter: "SdkSpanStarter"
    fast_processor: "FastSpanProcessor | None" = None


def read_sampling_ratio(variables: Mapping[str, str]) -> float | None:
    """Return the ratio; None for a sampler that only the SDK can evaluate."""
    match variables.get("OTEL_TRACES_SAMPLER", "").strip().lower() or _USUAL:
        case "parentbased_always_on":
            return 1.0
        case "parentbased_always_off":
            return 0.0
        case "parentbased_traceidratio":
            return _ratio(variables.get("OTEL_TRACES_SAMPLER_ARG", ""))
        case _:
            return None


def _ratio(text: str) -> float | None:
    try:
        share = float(text or 1)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None
