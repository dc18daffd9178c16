"""Checks of the ``OTEL_*`` variables of a server, before OpenTelemetry reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final

from ..errors import ConfigurationError
from .api import installed

_HEADER: Final = re.compile(r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[^,]*")


def check_variables() -> None:
    """Check what OpenTelemetry would answer with a traceback, a guess or silence.

    Raises:
        ConfigurationError: a variable cannot be used; it names the variable and what to write.
    """
    if not installed() or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    for name, value in sorted(os.environ.items()):
        for pattern, is_valid, advice in _CHECKS:
            if value.strip() and re.fullmatch(pattern, name) and not is_valid(value.strip()):
                # Headers hold keys.
                shown = "has another form" if name.endswith("_HEADERS") else f"is {value!r}"
                raise ConfigurationError(f"{name} {shown}. Use {advice}, or unset it.")
    try:
        from opentelemetry import propagate  # noqa: F401
    except Exception as error:
        raise ConfigurationError(
            f"OTEL_PROPAGATORS cannot be used ({error}). Install the package of what it names, such as "
            "opentelemetry-propagator-b3, or unset it."
        ) from error


def _whole(least: int) -> Callable[[str], bool]:
    return lambda value: value.isascii() and value.isdigit() and int(value) >= least


def _is_limit(value: str) -> bool:
    return value.lower() == "none" or _whole(0)(value)


def _is_number(value: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) > 0


def _is_share(value: str) -> bool:
    return re.fullmatch(r"[01]|0?\.\d+|1\.0+", value) is not None


def _is_address(value: str) -> bool:
    return re.fullmatch(r"https?://[^\s/]+\S*", value) is not None


def _is_grpc_or_address(value: str) -> bool:
    kinds = ("", "TRACES_", "METRICS_")
    protocols = {os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}PROTOCOL", "").strip() for kind in kinds}
    return "grpc" in protocols or _is_address(value)


def _is_header(value: str) -> bool:
    return all(_HEADER.fullmatch(each) for each in value.split(",") if each.strip())


_CHECKS: Final = (
    (r"OTEL_\w+_LIMIT", _is_limit, "a whole number"),
    (r"OTEL_BSP_\w+|OTEL_METRIC_EXPORT_\w+", _whole(1), "a whole number above 0"),
    (r"OTEL_EXPORTER_OTLP_(\w+_)?TIMEOUT", _is_number, "seconds, such as 10"),
    (r"OTEL_EXPORTER_OTLP_(\w+_)?ENDPOINT", _is_grpc_or_address, "an address such as http://localhost:4318"),
    (r"OTEL_EXPORTER_OTLP_(\w+_)?HEADERS", _is_header, "NAME=VALUE, and a comma between two"),
    (
        r"OTEL_TRACES_SAMPLER_ARG",
        _is_share,
        "a share between 0 and 1, such as 0.1",
    ),
)
