"""The versions of OpenTelemetry's conventions for generative AI, and what the user opts in to.

By default spans and metrics are those of version 1.36.0, which the conventions ask for until one is stable.
``OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`` selects 1.41.1, the last release that has them.
Since then they are developed in a repository of their own, without releases.
"""

from __future__ import annotations

import os
from typing import Any, Final

PROVIDER: Final = "agentrt"
DEFAULT_VERSION: Final = "1.36.0"
LATEST_VERSION: Final = "1.41.1"

_OPT_IN: Final = "gen_ai_latest_experimental"
_CAPTURED_ON_SPANS: Final = ("SPAN_ONLY", "SPAN_AND_EVENT")


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
