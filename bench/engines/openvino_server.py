"""openvino_genai's continuous batching behind a thin OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .openvino_genai import continuous_batching, encode, generation_config, groups_of_agentrt
from .side import Request as Asked

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_Made: TypeAlias = list[int] | RuntimeError | None
"""New tokens of an answer, why there are none, or None at its end."""

_CACHE_GIB: Final = 1
_LOOP_ROUNDS: Final = 16
"""Rounds of the event loop between two steps: a request that has arrived is read in fewer."""
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
"""Fields of a request that the pipeline knows by the same names."""


class OpenVINOGenAIServer:
    """The pipeline with its prefix cache, and a server on a thread that answers streamed chat requests."""

    def __init__(self, model: str, *, default_groups: bool = False) -> None:
        """Load ``model`` and listen on a free port of the loopback interface.

        Activations are quantised in the groups that agentrt chooses for ``model``, or in OpenVINO's default.
        """
        import openvino_genai

        self._genai = openvino_genai
        scheduler = continuous_batching(_CACHE_GIB)
        scheduler.enable_prefix_caching = True
        groups = {} if default_groups else groups_of_agentrt(model)
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", groups)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._ids = itertools.count()
        self._unread: dict[int, tuple[Any, asyncio.Queue[_Made]]] = {}
        """Handle of each unfinished request, which would be cancelled without it, and where its tokens go."""
        self._wanted = asyncio.Event()
        self._listening()

    def _listening(self) -> None:
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(self._app(), log_config=None, access_log=False))
        threading.Thread(target=server.run, args=([listener],), daemon=True).start()

    def _app(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.responses import StreamingResponse
        from starlette.routing import Route

        async def complete(request: Request) -> StreamingResponse:
            return StreamingResponse(self._answer(await request.json()), media_type="text/event-stream")

        return Starlette(
            routes=[Route("/v1/chat/completions", complete, methods=["POST"])], lifespan=self._stepping
        )

    @asynccontextmanager
    async def _stepping(self, app: Starlette) -> AsyncIterator[None]:
        steps = asyncio.create_task(self._steps())
        yield
        steps.cancel()

    async def _steps(self) -> None:
        """Step the pipeline on the event loop: a step holds the interpreter's lock, wherever it runs."""
        while True:
            if not self._unread:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                self._pipeline.step()
            except RuntimeError as error:  # all requests end with it, and with them the bench
                for _, made in self._unread.values():
                    made.put_nowait(error)
                raise
            for number, (handle, made) in list(self._unread.items()):
                while handle.can_read():
                    (output,) = handle.read().values()
                    made.put_nowait(output.generated_ids)
                if handle.get_status() == self._genai.GenerationStatus.FINISHED:
                    made.put_nowait(None)
                    del self._unread[number]
            for _ in range(_LOOP_ROUNDS):
                await asyncio.sleep(0)

    async def _answer(self, body: Mapping[str, Any]) -> AsyncIterator[str]:
        ignore_eos = body.get("ignore_eos", False)
        asked = Asked(body["messages"], body["max_tokens"], body.get("tools"), ignore_eos)
        tokens = encode(self._tokenizer, asked).input_ids
        made: asyncio.Queue[_Made] = asyncio.Queue()
        number = next(self._ids)
        handle = self._pipeline.add_request(number, tokens, self._config(asked, body))
        self._unread[number] = handle, made
        self._wanted.set()
        answered = 0
        while (new := await made.get()) is not None:
            if isinstance(new, RuntimeError):
                raise new
            answered += len(new)
            yield _event(choices=[{"index": 0, "delta": {"content": self._tokenizer.decode(new)}}])
        reason = "length" if answered == asked.max_tokens else "stop"
        yield _event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
        yield _event(choices=[], usage={"prompt_tokens": tokens.shape[1], "completion_tokens": answered})
        yield "data: [DONE]\n\n"

    def _config(self, asked: Asked, body: Mapping[str, Any]) -> Any:
        config = generation_config(asked)
        if not asked.ignore_eos:
            config.set_eos_token_id(self._tokenizer.get_eos_token_id())
        if body.get("temperature"):
            config.do_sample = True
            for name in _SAMPLING & body.keys():
                setattr(config, name, body[name])
        return config


def _event(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"
