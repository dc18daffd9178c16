"""The responses in progress, by id, so that submitted tool outputs reach them."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...toolcache.outputs import ToolOutputs
from .errors import ApiError

_REMEMBERED_S = 60.0
_MAX_REMEMBERED = 4096


def new_completion_id() -> str:
    """Return a fresh, unguessable id. With it a client can add to the response's tool cache."""
    return f"chatcmpl-{secrets.token_hex(16)}"


class OpenResponses:
    """The app and the tool outputs of each response in progress. For one event loop.

    The ids of ended responses are remembered for 60 seconds, so that an output that comes too late is told
    apart from one for an unknown response.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._open: dict[str, tuple[str, ToolOutputs]] = {}
        self._ended: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @contextmanager
    def register(self, id: str, app: str, outputs: ToolOutputs) -> Iterator[None]:
        """Make ``outputs`` those of the response ``id`` of ``app`` until the block ends; then close them."""
        self._open[id] = (app, outputs)
        try:
            yield
        finally:
            del self._open[id]
            outputs.close()
            self._ended[id] = (app, self._clock() + _REMEMBERED_S)
            while len(self._ended) > _MAX_REMEMBERED:
                self._ended.popitem(last=False)

    def outputs_of(self, id: str, app: str) -> ToolOutputs | None:
        """Return the tool outputs of a response; None if it has ended.

        Raises:
            ApiError: 404, ``app`` has no such response, or it ended more than 60 seconds ago.
        """
        owner, outputs = self._open.get(id, (None, None))
        if owner is None:
            owner, until = self._ended.get(id, (None, 0.0))
            if until <= self._clock():
                owner = None
        if owner != app:
            raise ApiError(
                404,
                "there is no such response. Use the id from the first chunk of one of your streams.",
                code="response_not_found",
                param="response_id",
            )
        return outputs
