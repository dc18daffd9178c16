"""llama.cpp's server on the same GGUF file, which saves a slot to a file and restores it (``xllamacpp``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..common.llama_cpp import LlamaCppServer
from ..common.process import SideProcess

_FILE: Final = "slot.bin"


class LlamaCppSlots(SideProcess):
    """llama.cpp's server with one slot; a context manager. Its KV cache has the server's default, f16."""

    def __init__(self, model: str, threads: int, context: int, folder: Path) -> None:
        """Start the server with ``model``, a GGUF file, which keeps its slot in ``folder``."""
        super().__init__(_Server, model, threads, context, str(folder))

    def save(self, prompt: Sequence[int]) -> None:
        """Compute ``prompt``, token ids, and save the slot."""
        self.call("save", list(prompt))

    def restore(self, prompt: Sequence[int]) -> float:
        """Restore the slot and answer ``prompt``, which begins with the one saved; return seconds.

        They are those that the server counts itself: of the restore, and of the prompt up to the first token.
        """
        return float(self.call("restore", list(prompt)))


class _Server:
    def __init__(self, model: str, threads: int, context: int, folder: str) -> None:
        def save_slots(parameters: Any) -> None:
            parameters.slot_save_path = folder.rstrip("/") + "/"
            parameters.cache_ram_mib = 0  # nothing is kept beside the slot

        self._server = LlamaCppServer(model, threads, context, configure=save_slots)
        self._complete([1, 2, 3])  # so that it is warm

    def save(self, prompt: list[int]) -> None:
        self._complete(prompt)
        saved = self._server.post("/slots/0?action=save", {"filename": _FILE})
        if saved["n_saved"] < len(prompt):
            raise ValueError(f"llama.cpp saved {saved['n_saved']} of {len(prompt)} tokens")

    def restore(self, prompt: list[int]) -> float:
        restored = self._server.post("/slots/0?action=restore", {"filename": _FILE})
        timings = self._complete(prompt)
        if timings["prompt_n"] > len(prompt) - restored["n_restored"] // 2:
            raise ValueError(f"llama.cpp computed {timings['prompt_n']} tokens of a restored prompt again")
        return float(restored["timings"]["restore_ms"] + timings["prompt_ms"]) / 1e3

    def _complete(self, prompt: list[int]) -> Mapping[str, Any]:
        body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True, "id_slot": 0}
        timings: Mapping[str, Any] = self._server.post("/completion", body)["timings"]
        return timings
