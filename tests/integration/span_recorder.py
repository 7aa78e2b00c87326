"""Record the finished spans of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobforge.observability import tracing


class SpanRecorder:
    """`tracer` is for a test's own spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("the test")

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]

    def spans_named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span_named(self, name: str) -> ReadableSpan:
        (found,) = self.spans_named(name)
        return found


@contextmanager
def record_spans() -> Iterator[SpanRecorder]:
    provider = TracerProvider()
    tracing.use_provider(provider)
    try:
        yield SpanRecorder(provider)
    finally:
        tracing.use_provider(None)


def are_nested(*spans: ReadableSpan) -> bool:
    """Return whether each span is the parent of the next, in one trace."""
    return all(
        inner.parent is not None
        and inner.parent.span_id == outer.context.span_id
        and inner.context.trace_id == outer.context.trace_id
        for outer, inner in pairwise(spans)
    )
