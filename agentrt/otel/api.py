"""OpenTelemetry's API, which is an optional package, and its conventions for generative AI.

By default spans and metrics are those of version 1.36.0, which the conventions ask for until one is stable.
``OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`` selects 1.41.1, the last release that has them.
Since then they are developed in a repository of their own, without releases.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Status, Tracer

_NAME = "agentrt"
_log = logging.getLogger(__name__)
PROVIDER: Final = "agentrt"
DEFAULT_VERSION: Final = "1.36.0"
LATEST_VERSION: Final = "1.41.1"

_OPT_IN: Final = "gen_ai_latest_experimental"
_CAPTURED_ON_SPANS: Final = ("SPAN_ONLY", "SPAN_AND_EVENT")


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


def follows_latest() -> bool:
    """Whether the user has opted in to the latest experimental conventions."""
    listed = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")
    return _OPT_IN in (each.strip() for each in listed)


def captures_content() -> bool:
    """Whether the user has opted in to the texts of messages on spans.

    That needs the latest conventions: version 1.36.0 has no attributes for them.
    """
    mode = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().upper()
    return mode in _CAPTURED_ON_SPANS and follows_latest()


def schema_url() -> str:
    """Return the URL of the version of the conventions that spans and metrics follow."""
    return f"https://opentelemetry.io/schemas/{LATEST_VERSION if follows_latest() else DEFAULT_VERSION}"


def operation(name: str, model: str) -> dict[str, Any]:
    """Return the attributes that spans and metrics of an operation by a model have from their beginning."""
    provider = "gen_ai.provider.name" if follows_latest() else "gen_ai.system"
    return {"gen_ai.operation.name": name, provider: PROVIDER, "gen_ai.request.model": model}


def failure(error: BaseException) -> dict[str, Any]:
    """Return the attribute that says how an operation failed: the error's type, as its text may quote."""
    return {"error.type": type(error).__name__}
