"""llama.cpp's own server on a GGUF file (the package ``xllamacpp``)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

_TIMEOUT_S: Final = 600
_WARNINGS: Final = 2
"""Verbosity without a line for each request."""


def share_one_cache(parameters: Any) -> None:
    """Configure a server whose sequences share one cache, and which renders chat templates itself."""
    parameters.use_jinja = True
    parameters.kv_unified = True


class LlamaCppServer:
    """llama.cpp's server in this process, which should be a :class:`~.process.SideProcess` of its own."""

    def __init__(
        self,
        model: str,
        threads: int,
        context: int,
        *,
        sequences: int = 1,
        configure: Callable[[Any], None] | None = None,
    ) -> None:
        """Start the server with ``model``, a GGUF file, on ``threads`` threads.

        It holds ``sequences`` sequences, of ``context`` tokens together. ``configure`` is called with the
        ``xllamacpp.CommonParams`` that the server gets.
        """
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = model
        parameters.verbosity = _WARNINGS
        parameters.n_ctx = context
        parameters.n_parallel = sequences
        parameters.cpuparams.n_threads = threads
        parameters.cpuparams_batch.n_threads = threads
        if configure is not None:
            configure(parameters)
        self._server = xllamacpp.Server(parameters)

    def url(self) -> str:
        """Return the server's address, without ``/v1``."""
        return str(self._server.listening_address)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to ``body``, both JSON. Callable from several threads at once."""
        request = urllib.request.Request(
            self.url() + path,
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
