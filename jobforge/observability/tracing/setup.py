"""Sets up OpenTelemetry for JobForge's own processes according to the OTEL_* variables.

Does nothing if they name neither an endpoint nor an exporter, or if the application set up
OpenTelemetry itself when it was imported.
"""

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobforge.errors import ConfigError
from jobforge.observability.tracing import spans
from jobforge.process.environment import environment

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from jobforge.observability.tracing.sampling import ParentBasedSampling

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_END_S = 5.0

_log = logging.getLogger("jobforge")
_provider: "TracerProvider | None" = None
_sampling: "ParentBasedSampling | None" = None


def configure(service: str) -> None:
    """Start tracing in this process if the environment requests it.

    If the setup fails, log a warning and continue without traces.
    """
    global _provider  # noqa: PLW0603 - one per process
    name = find_exporter_name(environment())
    if name is None or spans.is_enabled():
        return
    try:
        _provider = _set_up(service, name)
    except ConfigError as error:
        _log.warning("Tracing is off: %s; %s", error.message, error.hint)


def get_sampling() -> "ParentBasedSampling | None":
    """Return None if the application set up OpenTelemetry, or for a sampler of the SDK."""
    return _sampling


def shutdown() -> None:
    """Export the remaining spans; wait at most 5 seconds for the collector."""
    global _provider
    provider, _provider = _provider, None
    if provider is not None:
        thread = threading.Thread(target=provider.shutdown, daemon=True)
        thread.start()
        thread.join(_END_S)


def find_exporter_name(variables: Mapping[str, str]) -> str | None:
    """Return the entry point name of the exporter that these variables select."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    exporter = variables.get("OTEL_TRACES_EXPORTER") or (_first(variables, _ENDPOINTS) and "otlp")
    if not exporter or exporter == "none":
        return None
    if exporter != "otlp":
        return exporter
    is_grpc = _first(variables, _PROTOCOLS) == "grpc"
    return "otlp_proto_grpc" if is_grpc else "otlp_proto_http"


def _set_up(service: str, name: str) -> "TracerProvider":
    global _sampling  # noqa: PLW0603 - one per process
    exporter = _exporter(name)
    # Packages of exporters depend on the API and the SDK, so these imports succeed.
    from opentelemetry import trace  # noqa: PLC0415 - only if tracing is requested
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only if tracing is requested
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - only if tracing is requested
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - only if tracing is requested

    from jobforge.observability.tracing import span_transfer  # noqa: PLC0415 - only if tracing is requested
    from jobforge.observability.tracing.sampling import (  # noqa: PLC0415 - only if tracing is requested
        DrawnIds,
        ParentBasedSampling,
        read_sampling_ratio,
    )

    variables = environment()
    resource = Resource.create(_identity(service, variables))
    processor = BatchSpanProcessor(exporter)
    ids = DrawnIds()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    spans.use_provider(provider)
    span_transfer.configure_receiver(processor, resource)
    ratio = read_sampling_ratio(variables)
    _sampling = None if ratio is None else ParentBasedSampling(ratio, ids)
    return provider


def _exporter(name: str) -> "SpanExporter":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a slow import

    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        raise ConfigError(
            f"Trace exporter '{name}' is not installed",
            hint='Install otlp_proto_http with: pip install "jobforge[otel]"',
        )
    try:
        exporter: SpanExporter = found.load()()
    except Exception as error:
        raise ConfigError(
            f"Trace exporter '{name}' cannot be set up: {error}", hint="Check the OTEL_* variables"
        ) from error
    return exporter


def _identity(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    is_named = "OTEL_SERVICE_NAME" in variables or "service.name=" in variables.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return {} if is_named else {"service.name": service}


def _first(variables: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((variables[name] for name in names if variables.get(name)), None)
