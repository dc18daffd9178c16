"""OpenTelemetry's API, which is an optional package."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .conventions import schema_url

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Status, Tracer

_NAME = "agentrt"
_log = logging.getLogger(__name__)


@functools.cache
def installed() -> bool:
    """Whether OpenTelemetry can be used in this process."""
    try:
        from opentelemetry import metrics, trace
    except ModuleNotFoundError:
        return False
    try:
        trace.get_tracer_provider()
        metrics.get_meter_provider()
    except Exception as error:  # noqa: BLE001 - of any package; a trace must not end an agent
        _log.warning("nothing is traced: OTEL_PYTHON_*_PROVIDER cannot be used (%r). Unset it.", error)
        return False
    return True


def tracer() -> Tracer:
    """Return the process's tracer. Its spans go nowhere until the process has configured a provider."""
    from opentelemetry import trace

    return trace.get_tracer(_NAME, _version(), schema_url=schema_url())


def meter() -> Any:
    """Return the process's meter. Its measurements go nowhere until the process has configured a provider."""
    from opentelemetry import metrics

    return metrics.get_meter(_NAME, _version(), schema_url=schema_url())


@contextmanager
def current(span: Span) -> Iterator[None]:
    """Make ``span`` the current one in the block. Errors of the block are not recorded: they may quote."""
    from opentelemetry import trace

    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


def failed() -> Status:
    """Return the status of a failed span, without a description: an error's text may quote."""
    from opentelemetry.trace import Status, StatusCode

    return Status(StatusCode.ERROR)


def _version() -> str:
    from agentrt import __version__

    return __version__
