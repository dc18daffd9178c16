"""The user's folder of contexts, where ``agentrt serve`` and ``agentrt chat`` keep them by default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from ..errors import ContextKeyError, ContextStoreError
from .output import say

if TYPE_CHECKING:
    from agentrt.runtime import PooledModel

MOST_MIB: Final = 2048
"""Disk space of each model's contexts in :func:`own_context_folder`."""
HOW_TO_SEE: Final = "agentrt contexts lists and deletes them, --no-context-folder keeps none"


def no_context_folder_option(**settings: Any) -> Any:
    """Return the option ``--no-context-folder``, with more ``settings`` of typer's."""
    return typer.Option("--no-context-folder", help="Keep contexts in memory only.", **settings)


def key_of(given: str | None) -> Path | Literal["keyring"] | None:
    """Return the setting ``context_key`` of the option ``--context-key``."""
    if given == "keyring":
        return "keyring"
    return None if given is None else Path(given)


def own_context_folder() -> Path:
    """Return the folder of the user for contexts, which need not exist."""
    import platformdirs

    return platformdirs.user_data_path("agentrt") / "contexts"


def keep_contexts(model: PooledModel) -> None:
    """Open the contexts of ``model`` in the user's folder; have them in memory if they cannot be kept there.

    Raises:
        ContextKeyError: they are to be encrypted, and cannot be.
    """
    try:
        model.open_contexts()
    except ContextStoreError as error:
        if model.config.context_key is not None and isinstance(error, ContextKeyError):
            raise
        say(f"contexts of {model.name} are kept in memory only: {error}")
        model.config = model.config.model_copy(update={"context_folder": None, "context_key": None})


def own_contexts(model: str) -> dict[str, Any]:
    """Return the settings of a runtime whose contexts are in the user's folder.

    Raises:
        ModelNotFoundError, ModelFormatError: there is no such model, or it is damaged.
        ContextStoreError: they cannot be used, or another program uses them.
    """
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.contexts.opening import open_context_store
    from agentrt.runtime.model.directory import summarize_model

    settings: dict[str, Any] = {
        "context_folder": own_context_folder(),
        "context_disk_bytes": MOST_MIB * 2**20,
    }
    # Before the model is loaded, which takes long.
    store = open_context_store(RuntimeConfig(**settings), summarize_model(model).model_id)
    assert store is not None
    store.close()
    return settings
