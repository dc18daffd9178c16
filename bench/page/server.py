"""``agentrt serve``'s server with nano, in a process of its own."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from ..common.process import SideProcess


class PageServer(SideProcess):
    """Serves nano on a free port inside a ``with`` block, to requests without a token."""

    def __init__(self) -> None:
        """Start the process, and wait until clients can connect."""
        super().__init__(_Service)
        self.url = f"http://127.0.0.1:{self.call('port')}"


class _Service:
    def __init__(self) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig
        from agentrt.runtime.http.run import make_server
        from agentrt.runtime.server import ServerConfig, bind, create_app

        config = ServerConfig(port=0)
        self._stack = ExitStack()
        # One thread, as the demo has: the other cores are the browser's.
        runtime = self._stack.enter_context(LocalRuntime.open("nano", RuntimeConfig(threads=1)))
        listener = self._stack.enter_context(bind(config))
        self._port = int(listener.getsockname()[1])
        server = make_server(create_app(runtime, config), config)
        threading.Thread(target=server.run, args=([listener],), daemon=True).start()

    def port(self) -> int:
        return self._port
