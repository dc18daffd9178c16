"""The service of the tool cache bench, in its own process, with a model that reasons before it calls."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime, RuntimeConfig

_THOUGHT = "Let me look. "
APPS = 4096
"""Apps share no prefixes: who asks as another app each time has no prefix cache."""


def token_of(app: int) -> str:
    """Return the token of an app."""
    return f"bench-app-token-{app:06}"


def exact() -> RuntimeConfig:
    """Return the configuration under which equal histories give equal tokens."""
    from agentrt.runtime import RuntimeConfig

    return RuntimeConfig(
        inference_precision="f32", kv_cache_precision="f32", dynamic_quantization_group_size=0
    )


class BenchServer:
    """Serves nano on a free port inside a ``with`` block."""

    def __init__(self, reasoning_tokens: int) -> None:
        """``reasoning_tokens`` tokens precede a call in requests that offer tools and hold no result yet."""
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, reasoning_tokens), daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        """Start the process and wait until it serves."""
        self._process.start()
        self.port = self._ours.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut the server down."""
        self._ours.send(None)
        self._process.join()


def _serve(connection: Connection, reasoning_tokens: int) -> None:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.http.identity import Tokens
    from agentrt.runtime.http.run import make_server
    from agentrt.runtime.server import ServerConfig, bind, create_app

    tokens = Tokens((f"app {app}", token_of(app)) for app in range(APPS))
    config = ServerConfig(port=0, tokens=tokens)
    with bind(config) as listener, LocalRuntime.open("nano", exact()) as runtime:
        _let_think(runtime, reasoning_tokens)
        server = make_server(create_app(runtime, config), config)
        listener.listen(1024)

        def end() -> None:
            connection.recv()
            server.should_exit = True

        threading.Thread(target=end, daemon=True).start()
        connection.send(listener.getsockname()[1])
        server.run(sockets=[listener])


def _let_think(runtime: LocalRuntime, count: int) -> None:
    """Make answers that may call tools begin with ``tokens`` tokens of text, followed by a call."""
    processor, tokenizer = runtime._input_processor, runtime._tokenizer
    process = processor.process
    # They end with a full stop: white space before a call is not part of the content that clients send back.
    # The call begins as nano begins calls: behind a text, which it never learned, it may spell it otherwise.
    begin = tokenizer.encode('.\n<tool_call>\n{"name": "')
    thoughts = [*tokenizer.encode(_THOUGHT * count)[: count - 2], *begin]

    def process_thinking(messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        request = process(messages, **options)
        if request.grammar_matcher is None or messages[-1]["role"] == "tool":
            return request
        thinking: Any = _Thinking(request.grammar_matcher, thoughts)
        return dataclasses.replace(request, grammar_matcher=thinking)

    processor.process = process_thinking  # type: ignore[method-assign]


class _Thinking:
    """Constraint on an answer: fixed tokens first, then another constraint.

    Stands for the reasoning of a larger model: only the decode steps matter, so
    the text is always the same.
    """

    def __init__(self, inner: Any, tokens: Sequence[int]) -> None:
        self._inner = inner
        self._left = list(reversed(tokens))

    @property
    def error(self) -> str | None:
        return self._inner.error  # type: ignore[no-any-return]

    @property
    def active(self) -> bool:
        return bool(self._left) or self._inner.active

    def mask_logits(self, logits: Any) -> Any:
        if not self._left:
            return self._inner.mask_logits(logits)
        allowed = logits.copy()
        allowed[:] = -float("inf")
        allowed[self._left[-1]] = 0.0
        return allowed

    def accept_token(self, token: int) -> None:
        if self._left:
            self._left.pop()
        self._inner.accept_token(token)

    def reset(self) -> None:
        self._inner.reset()
