"""What all requests to one server share: its settings, its models, and the session that a header names."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request
from pydantic import Field

from agentrt.errors import InvalidRequestError
from agentrt.priority import Priority

from ...local.service import LocalRuntime
from ...pool.embedding_model import EmbeddingModel
from ...pool.model_pool import ModelPool
from ...pool.pooled_model import ModelStatus, PooledModel
from ...request.processor import MAX_SESSION_CHARACTERS
from ..http.admission import admit
from ..http.config import ListenConfig
from ..http.errors import ApiError
from ..http.streaming import cancel_on_disconnect
from .metrics import Metrics

SESSION_HEADER = "x-session-id"
"""The header by which vLLM's router keeps a session on one engine, and which agents send."""


class ServerConfig(ListenConfig):
    """The address and limits of a server in front of one runtime. Immutable."""

    default_max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of an answer whose request does not say how many it may have; None for as many as fit the
    context, or 16 in the older completions, as for OpenAI."""
    stalled_s: float = Field(default=30.0, gt=0)
    """``/health`` is 503 once requests have waited this long and no kernel has ended."""


def header_session(request: Request) -> str | None:
    """Return the session that the header names, in UTF-8; None if there is no such header.

    Raises:
        InvalidRequestError: the header is repeated, empty, too long, not printable or not UTF-8.
    """
    # Not the decoded headers: those are read as Latin-1.
    values = [value for name, value in request.headers.raw if name == SESSION_HEADER.encode()]
    if not values:
        return None
    try:
        name = values[0].decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError(
            SESSION_HEADER, "is not UTF-8. Encode the name of the session in UTF-8."
        ) from None
    if len(values) > 1 or not name.isprintable() or not 0 < len(name) <= MAX_SESSION_CHARACTERS:
        raise InvalidRequestError(
            SESSION_HEADER, f"send it once, with 1 to {MAX_SESSION_CHARACTERS} printable characters."
        )
    return name


@dataclass(frozen=True)
class ServerState:
    """The models, the settings and the metrics."""

    pool: ModelPool
    config: ServerConfig
    metrics: Metrics
    embedding: EmbeddingModel | None = None
    """The model that makes embeddings, if the server has one."""
    started: int = field(default_factory=lambda: int(time.time()))
    """Unix time at which the server was created, in seconds."""

    def model(self, name: str | None) -> PooledModel:
        """Return the model of this name, the first one for None.

        Raises:
            ApiError: 404, there is no such model.
        """
        model = self.pool.find(name)
        if model is None:
            served = " or ".join(repr(each) for model in self.pool.models for each in model.names)
            raise ApiError(
                404,
                f"the model {name!r} is not served here. Use {served}.",
                code="model_not_found",
                param="model",
            )
        return model

    def embedding_model(self, name: str | None) -> EmbeddingModel:
        """Return the embedding model, if its name is ``name`` or that is None.

        Raises:
            ApiError: 404, there is no such model.
        """
        if self.embedding is not None and name in (None, self.embedding.name):
            return self.embedding
        reason = (
            "no embedding model is served here. Start agentrt serve with --embedding-model DIR."
            if self.embedding is None
            else f"the model {name!r} makes no embeddings here. Use {self.embedding.name!r}."
        )
        raise ApiError(404, reason, code="model_not_found", param="model")


@asynccontextmanager
async def loaded(
    request: Request, model: PooledModel, priority: Priority
) -> AsyncGenerator[LocalRuntime, None]:
    """Admit ``request``, and hold ``model``, which is loaded, until the block ends.

    Raises:
        ApiError: 429, too many requests are in progress; 499, the client has disconnected.
        ModelLoadError, ModelBudgetError: see :meth:`ModelPool.load`.
    """
    state = server_state_of(request)
    with admit(request, priority), state.pool.hold(model):
        loading = state.pool.load(model)
        is_loaded = model.status is ModelStatus.LOADED
        yield await (loading if is_loaded else cancel_on_disconnect(request, loading))


def server_state_of(request: Request) -> ServerState:
    """Return the state of the server that received ``request``."""
    return cast(ServerState, request.app.state.server)
