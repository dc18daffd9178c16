"""What all requests to one server share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request

from ..http.admission import Admission
from ..service import LocalRuntime
from .config import ServerConfig
from .metrics import Metrics


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
