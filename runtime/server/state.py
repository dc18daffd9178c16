"""What all requests to one server share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request

from ..service import LocalRuntime
from .admission import Admission
from .config import ServerConfig
from .metrics import Metrics
from .open_responses import OpenResponses


@dataclass(frozen=True)
class Service:
    """One runtime behind one server."""

    runtime: LocalRuntime
    config: ServerConfig
    admission: Admission
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    return cast(Service, request.app.state.service)


def open_responses_of(request: Request) -> OpenResponses:
    """The responses that are being written by the server, or gateway, that a request came to."""
    return cast(OpenResponses, request.app.state.open_responses)


def app_of(request: Request) -> str:
    """The app that asks, as the guard found out."""
    return cast(str, request.state.app)
