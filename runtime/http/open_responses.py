"""The responses that are being written, by id, so that tool outputs can reach them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..toolcache.outputs import ToolOutputs
from .errors import ApiError

_REMEMBERED_S = 60.0
_MOST_REMEMBERED = 4096


class OpenResponses:
    """Which app's response each id is. For one event loop.

    An id that has ended is known for a while, so that an output which comes too late is told from one for
    a response that never was.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is being written."""
        self._clock = clock
        self._open: dict[str, tuple[str, ToolOutputs]] = {}
        self._ended: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @contextmanager
    def one(self, id: str, app: str, outputs: ToolOutputs) -> Iterator[None]:
        """Let outputs reach the response ``id`` of ``app`` for as long as the block runs."""
        self._open[id] = (app, outputs)
        try:
            yield
        finally:
            del self._open[id]
            outputs.close()
            self._ended[id] = (app, self._clock() + _REMEMBERED_S)
            while len(self._ended) > _MOST_REMEMBERED:
                self._ended.popitem(last=False)

    def outputs_of(self, id: str, app: str) -> ToolOutputs | None:
        """Where outputs for this response go; None if it has ended.

        Raises:
            ApiError: 404, ``app`` has no such response, or it ended long ago.
        """
        owner, outputs = self._open.get(id, (None, None))
        if owner is None:
            owner, until = self._ended.get(id, (None, 0.0))
            if until <= self._clock():
                owner = None
        if owner != app:
            raise ApiError(
                404,
                "there is no such response. Use the id from the first chunk of a stream of yours.",
                code="response_not_found",
                param="response_id",
            )
        return outputs
