"""The runtime with the settings in which contexts that come back change no token (decision 0028)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.contexts import kept_contexts
from agentrt.runtime.kv.store.store import ContextStore

from .baseline_swapper import PolicySwapper
from .policies import WITHOUT_RECOMPUTE

EXACT: Final[dict[str, Any]] = {
    "inference_precision": "f32",
    "kv_cache_precision": "f32",
    "dynamic_quantization_group_size": 0,
}


@contextmanager
def open_loading(
    model: str, folder: Path | None, store: ContextStore | None = None, **settings: Any
) -> Iterator[LocalRuntime]:
    """Open ``model`` with contexts in ``folder`` or ``store``; all that is stored of a prompt is loaded."""
    if folder is not None:
        settings["context_folder"] = folder
    with ExitStack() as stack:
        with patch.object(kept_contexts, "Swapper", partial(PolicySwapper, WITHOUT_RECOMPUTE)):
            runtime = LocalRuntime.open(model, RuntimeConfig(**settings), context_store=store)
        yield stack.enter_context(runtime)
