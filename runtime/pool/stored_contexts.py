"""Finding an app's contexts and stored responses among those of several models, loaded or not.

What another app has is not found in any of them, in the same steps as what does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.errors import ContextNotFoundError, ContextStoreError

from ..contexts.context import Context
from ..contexts.response_chains import ResponseChains, StoredResponse
from .pooled_model import PooledModel


def find_context(models: Sequence[PooledModel], app: str, context_id: str) -> tuple[PooledModel, Context]:
    """Return a context of ``app`` and its model. Blocks for the disk.

    Raises:
        ContextNotFoundError: ``app`` has no such context.
    """
    for model in models:
        if (context := model.context_table.find(app, context_id)) is not None:
            return model, context
    raise ContextNotFoundError(context_id)


def delete_contexts(models: Sequence[PooledModel], app: str) -> None:
    """Delete everything that is kept of ``app``. Blocks for the disk.

    Raises:
        ContextStoreError: that of a model cannot be deleted, and is still there; those of the others are not.
    """
    failed: ContextStoreError | None = None
    for model in models:
        try:
            model.delete_contexts(app)
        except ContextStoreError as error:
            failed = error
    if failed is not None:
        raise failed


def find_response(
    models: Sequence[PooledModel], app: str, response_id: str
) -> tuple[ResponseChains, StoredResponse] | None:
    """Return a response of ``app`` and those of its model; None if it has none. Blocks for the disk."""
    for model in models:
        chains = ResponseChains(model.context_table)
        if (response := chains.find(app, response_id)) is not None:
            return chains, response
    return None
