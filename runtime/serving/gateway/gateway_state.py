"""What all requests to one gateway share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

from fastapi import Request

from ..http.admission import Admission
from ..http.priority_header import hinted_priority
from .bounded_redis import BoundedRedis
from .separation import Separation
from .shared_outputs import SharedOutputs
from .upstream import Upstream


@dataclass(frozen=True)
class GatewayState:
    """The engine, the limit on requests in progress, what is shared with replicas, what keeps apps apart."""

    upstream: Upstream
    admission: Admission
    shared: SharedOutputs | None
    """None if there are no replicas."""
    separation: Separation | None
    """None where there is one app, or each client has its own key."""
    redis: BoundedRedis | None
    """What is shared is in it."""

    def admit(self, request: Request) -> AbstractContextManager[None]:
        """Count ``request`` as in progress until the block ends, by the priority that its header names.

        The body is the engine's: engines differ in the fields that name a priority.

        Raises:
            ApiError: 429, the app has as many requests in progress as it may.
        """
        return self.admission.admit(request, hinted_priority(request.headers))


def gateway_state_of(request: Request) -> GatewayState:
    """Return the state of the gateway that received ``request``."""
    return cast(GatewayState, request.app.state.gateway)
