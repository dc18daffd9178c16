"""A runtime and its server in a process of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from .machine import wakeups
from .process import SideProcess

if TYPE_CHECKING:
    from types import TracebackType

    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig


EXACT: Final[Mapping[str, Any]] = {
    "inference_precision": "f32",
    "kv_cache_precision": "f32",
    "dynamic_quantization_group_size": 0,
}
"""Settings under which equal histories give equal tokens in any batch (decision 0028)."""


def exact(threads: int | None = None) -> RuntimeConfig:
    """Return the configuration of :data:`EXACT`."""
    from agentrt.runtime import RuntimeConfig

    return RuntimeConfig(threads=threads, **EXACT)


class ServedRuntime(SideProcess):
    """Proxy of a :class:`RuntimeService`. A context manager: leaving it shuts the server down."""

    def __init__(self, make: Callable[..., RuntimeService], *arguments: object) -> None:
        """Start the process and wait until clients can connect to what ``make(*arguments)`` returns."""
        super().__init__(make, *arguments)
        self.port = int(self.call("port"))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self.call("close")
        super().__exit__(exc_type, exc, traceback)


class RuntimeService:
    """The object in the process: a runtime, and its server on a thread."""

    def __init__(self, model: str, config: RuntimeConfig, served: ServerConfig) -> None:
        from agentrt.runtime import LocalRuntime
        from agentrt.runtime.serving.http.run import DrainingServer
        from agentrt.runtime.serving.server import bind, create_app

        self._stack = ExitStack()
        self._runtime = self._stack.enter_context(LocalRuntime.open(model, config))
        self._listener = self._stack.enter_context(bind(served))
        self._server = DrainingServer(create_app(self._runtime, served), served)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()

    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def idle(self, seconds: float) -> tuple[float, float]:
        """Return wake-ups a second and the share of a core while nothing is asked for so many ``seconds``."""
        before, used = wakeups(), time.process_time()
        time.sleep(seconds)
        woken = sum(count - before.get(thread, 0) for thread, count in wakeups().items())
        return woken / seconds, (time.process_time() - used) / seconds

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._stack.close()
