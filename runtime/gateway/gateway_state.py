"""What all requests to one gateway share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from fastapi import Request

from ..http.admission import Admission
from .upstream import Upstream


@dataclass(frozen=True)
class GatewayState:
    """The engine and the limit on requests in progress."""

    upstream: Upstream
    admission: Admission


def gateway_state_of(request: Request) -> GatewayState:
    """Return the state of the gateway that received ``request``."""
    return cast(GatewayState, request.app.state.gateway)
