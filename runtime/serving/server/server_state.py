"""What all requests to one server share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request

from ...local.service import LocalRuntime
from ...pool.embedding_model import EmbeddingModel
from ...pool.model_pool import ModelPool
from ...pool.pooled_model import ModelStatus, PooledModel
from ..http.admission import Admission
from ..http.disconnect import cancel_on_disconnect
from ..http.errors import ApiError
from .config import ServerConfig
from .metrics import Metrics


@dataclass(frozen=True)
class ServerState:
    """The models, the settings, the limit on requests in progress and the metrics."""

    pool: ModelPool
    config: ServerConfig
    admission: Admission
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

    async def load(self, model: PooledModel, request: Request) -> LocalRuntime:
        """Return the runtime of ``model``, which is held, and load it first unless it is loaded.

        Raises:
            ApiError: 499, the client of ``request`` has disconnected.
            ModelLoadError, ModelBudgetError: see :meth:`ModelPool.load`.
        """
        if model.status is ModelStatus.LOADED:
            return await self.pool.load(model)
        return await cancel_on_disconnect(request, self.pool.load(model))


def server_state_of(request: Request) -> ServerState:
    """Return the state of the server that received ``request``."""
    return cast(ServerState, request.app.state.server)
