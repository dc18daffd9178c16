"""Exporters of a server's spans and metrics, by the standard ``OTEL_*`` variables, which are checked here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Final

from ..errors import ConfigurationError
from .api import installed

_SIGNALS: Final = ("traces", "metrics")
_PROTOCOLS: Final = {
    "http/protobuf": "otlp_proto_http",
    "http/json": "otlp_json_http",
    "grpc": "otlp_proto_grpc",
}
_FLUSH_S: Final = 2.0
"""How long the end of a server waits for its last spans to be taken."""
_SDK: Final = "pip install opentelemetry-sdk"
_INSTALL: Final = f"{_SDK} opentelemetry-exporter-otlp-proto-http"
_PACKAGES: Final = {
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
    "otlp_json_http": "opentelemetry-exporter-otlp-json-http",
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
}


@contextmanager
def exporting(service: str) -> Iterator[tuple[str, ...]]:
    """Export in the block what the user has named an exporter for; the value is "traces", "metrics" or both.

    An exporter is named by ``OTEL_TRACES_EXPORTER`` and ``OTEL_METRICS_EXPORTER``, or by an address in
    ``OTEL_EXPORTER_OTLP_ENDPOINT``. Without one nothing is imported, started or sent. Nothing waits for what
    receives the spans: they are queued, dropped when the queue is full, and at the end of the block those
    that were not taken within two seconds are dropped. ``service`` is the default of ``OTEL_SERVICE_NAME``. A
    process that has configured OpenTelemetry already, as ``opentelemetry-instrument`` does, is left alone.

    Raises:
        ConfigurationError: a variable cannot be used, or no installed package has the exporter.
    """
    named = {signal: names for signal in _SIGNALS if (names := _named(signal))}
    if not named or _configured_already():
        yield ()
        return
    try:
        exporters = {signal: [_find(signal, name) for name in names] for signal, names in named.items()}
        shut_down = _start(service, **exporters)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"an OTEL_* variable cannot be used ({error}). Correct it.") from error
    try:
        yield tuple(exporters)
    finally:
        closing = threading.Thread(target=_at_once, args=(shut_down,), daemon=True)
        closing.start()
        closing.join(_FLUSH_S)


def _at_once(shut_down: Sequence[Callable[[], None]]) -> None:
    """Shut everything down side by side, so that what waits for the end waits once."""
    threads = [threading.Thread(target=each, daemon=True) for each in shut_down]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _named(signal: str) -> Sequence[str]:
    """Return the names of the exporters of ``signal``."""
    if _is_disabled():
        return ()
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if names:
        return tuple(name for each in names.split(",") if (name := each.strip()) not in ("", "none"))
    addresses = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return ("otlp",) if any(os.environ.get(address, "").strip() for address in addresses) else ()


def _is_disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _configured_already() -> bool:
    if not installed():
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _find(signal: str, name: str) -> Callable[[], Any]:
    """Return the class of an exporter."""
    entry = _entry_of_otlp(signal) if name == "otlp" else name
    found = list(entry_points(group=f"opentelemetry_{signal}_exporter", name=entry))
    if not found:
        raise ConfigurationError(
            f"no installed package exports {signal} to {name!r} ({entry}), which an OTEL_* variable names. "
            f"{_advice(entry)} Or unset the variable."
        )
    try:
        loaded: Callable[[], Any] = found[0].load()
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, which exports {signal} to {name!r}. {_advice(entry)}"
        ) from error
    return loaded


def _advice(entry: str) -> str:
    if entry in _PACKAGES:
        return f"Run: {_SDK} {_PACKAGES[entry]}."
    return "Install the package that has it, or use otlp or console."


def _entry_of_otlp(signal: str) -> str:
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip() or "http/protobuf"
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "").strip() or general
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}. Use {', '.join(map(repr, _PROTOCOLS))}."
        )
    return _PROTOCOLS[protocol]


def _start(
    service: str, traces: Sequence[Callable[[], Any]] = (), metrics: Sequence[Callable[[], Any]] = ()
) -> list[Callable[[], None]]:
    """Set the process's providers; return what shuts them down."""
    try:
        from opentelemetry import metrics as metrics_api
        from opentelemetry import trace as trace_api
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, which an OTEL_* variable needs. Run: {_INSTALL}"
        ) from error

    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    shut_down: list[Callable[[], None]] = []
    if traces:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in traces:
            tracers.add_span_processor(BatchSpanProcessor(exporter()))
        trace_api.set_tracer_provider(tracers)
        shut_down.append(tracers.shutdown)
    if metrics:
        made = [exporter() for exporter in metrics]
        readers = [
            each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in made
        ]
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics_api.set_meter_provider(meters)
        shut_down.append(meters.shutdown)
    return shut_down


def check_variables() -> None:
    """Check ``OTEL_PROPAGATORS``, which the import of OpenTelemetry reads and answers with a traceback.

    Raises:
        ConfigurationError: it names a propagator that is not installed.
    """
    if not installed() or _is_disabled():
        return
    try:
        from opentelemetry import propagate  # noqa: F401
    except Exception as error:
        raise ConfigurationError(
            f"OTEL_PROPAGATORS cannot be used ({error}). Install the package of what it names, such as "
            "opentelemetry-propagator-b3, or unset it."
        ) from error
