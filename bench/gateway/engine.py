"""The engine of the gateway bench: `agentrt serve` with the nano model, in a process of its own."""

from __future__ import annotations

import threading
from types import TracebackType

from ..common.process import SideProcess


class BenchEngine(SideProcess):
    """Serves nano without tokens on a free port inside a ``with`` block, in f32.

    Equal histories give equal tokens, whatever else is in the batch.
    """

    def __init__(self) -> None:
        """Open the model and listen."""
        super().__init__(_Service)
        self.port = int(self.call("port"))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut the server down, and end its process."""
        if exc is None:
            self.call("close")
        super().__exit__(exc_type, exc, traceback)


class _Service:
    """The object in the engine's process: a runtime, and the server on a thread."""

    def __init__(self) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig
        from agentrt.runtime.http.run import make_server
        from agentrt.runtime.server import ServerConfig, bind, create_app

        exact = RuntimeConfig(
            inference_precision="f32", kv_cache_precision="f32", dynamic_quantization_group_size=0
        )
        config = ServerConfig(port=0)
        self._runtime = LocalRuntime.open("nano", exact)
        self._bound = bind(config)
        listener = self._bound.__enter__()
        self._port = int(listener.getsockname()[1])
        self._server = make_server(create_app(self._runtime, config), config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()

    def port(self) -> int:
        return self._port

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._bound.__exit__(None, None, None)
        self._runtime.close()
