"""Finding an app's contexts and stored responses among those of several models, loaded or not.

All models are asked in any case, so that the time does not tell whether another app has what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.errors import ContextNotFoundError

from ..context.table.context import Context
from ..context.table.response_chains import ResponseChains, StoredResponse
from .pooled_model import PooledModel


def find_context(models: Sequence[PooledModel], app: str, context_id: str) -> tuple[PooledModel, Context]:
    """Return a context of ``app`` and its model. Blocks for the disk.

    Raises:
        ContextNotFoundError: ``app`` has no such context.
    """
    found = [(model, model.context_table.find(app, context_id)) for model in models]
    for model, context in found:
        if context is not None:
            return model, context
    raise ContextNotFoundError(context_id)


def find_response(
    models: Sequence[PooledModel], app: str, response_id: str
) -> tuple[ResponseChains, StoredResponse] | None:
    """Return a response of ``app`` and those of its model; None if it has none. Blocks for the disk."""
    chains = [ResponseChains(model.context_table) for model in models]
    found = [(each, each.find(app, response_id)) for each in chains]
    return next(((each, response) for each, response in found if response is not None), None)
