"""Which attempts are recorded, as far as it can be said before a span is made.

Of many short jobs few are recorded, and to ask the SDK about each takes as long as to run it. So a
worker decides by itself what the OTEL_TRACES_SAMPLER of most installations says.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jobforge.observability.tracing.fast_exporter import FastSpanProcessor
    from jobforge.observability.tracing.lazy_span import SdkSpanStarter

_USUAL = "parentbased_always_on"


class Sampling(NamedTuple):
    """What the enqueuer has decided holds. Of jobs that come without a trace, a share begins one.

    `opener` makes spans of the SDK for them: where there is an `outlet`, for those that need one.
    """

    ratio: float
    span_starter: "SdkSpanStarter"
    fast_processor: "FastSpanProcessor | None" = None


def read_sampling_ratio(variables: Mapping[str, str]) -> float | None:
    """None for a sampler that has to be asked."""
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
