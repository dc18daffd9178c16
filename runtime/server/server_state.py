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
class ServerState:
    """The runtime, the settings, the limit on requests in progress and the metrics."""

    runtime: LocalRuntime
    config: ServerConfig
    admission: Admission
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))
    """Unix time at which the server was created, in seconds."""


def server_state_of(request: Request) -> ServerState:
    """Return the state of the server that received ``request``."""
    return cast(ServerState, request.app.state.server)
