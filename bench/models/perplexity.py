"""Perplexity of real text, here and in llama.cpp, on the same GGUF file and the same tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from pydantic import BaseModel

from ..common.estimates import Estimate, bootstrap
from ..common.pieces import Pieces, open_whole
from ..common.process import SideProcess
from ..common.workloads import read_records
from ..engines.llama_cpp import LlamaCpp
from ..engines.side import EngineProcess, with_cache
from .bfcl import is_held_back

FILE: Final = "spec_bench.jsonl"
"""Its records have news articles and passages of an encyclopedia as their contexts."""
_FORCED: Final = 1000.0
"""A bias beyond the range of logits."""


class _Record(BaseModel):
    id: str
    context: str = ""


def load_texts(folder: Path, count: int, *, held_back: bool) -> list[str]:
    """Return ``count`` texts of a page each, spread evenly over those in ``folder``, held back or not.

    Raises:
        WorkloadNotFoundError: the file is not there.
        WorkloadFormatError: a line cannot be read.
    """
    texts = [
        record.context
        for record in read_records(folder / FILE, _Record)
        if record.context and is_held_back(record.id) is held_back
    ]
    return texts[:: max(1, len(texts) // count)][:count]


def perplexity_figures(
    model: str, cache: str, texts: Sequence[str], window: int, progress: Callable[[str], None]
) -> dict[str, Estimate]:
    """Predict every token of the first ``window`` tokens of each text but its first.

    A perplexity is the exponential of the mean negative log-probability of a token after those before it.
    """
    progress(f"perplexity of {len(texts)} texts")
    with SideProcess(with_cache, cache, Scorer, model, window) as scorer:
        windows: list[list[int]] = [scorer.call("tokens", text) for text in texts]
        ours: list[list[float]] = [scorer.call("log_probabilities", each) for each in windows]
    progress(f"perplexity of {len(texts)} texts in llama.cpp")
    with EngineProcess(_LlamaCpp, model, (window + 1) * len(windows), len(windows)) as peer:
        theirs: list[list[float]] = peer.call("log_probabilities", windows)
    return {
        "ppl": bootstrap(ours, _perplexity),
        "ppl_ratio_vs_llama_cpp": bootstrap(
            list(zip(ours, theirs, strict=True)),
            lambda pairs: _perplexity([own for own, _ in pairs]) / _perplexity([their for _, their in pairs]),
        ),
    }


def _perplexity(windows: Sequence[Sequence[float]]) -> float:
    return exp(-fmean(value for window in windows for value in window))


class Scorer:
    """The kernels of the runtime with its default settings, on paged attention."""

    def __init__(self, model: str, window: int) -> None:
        """Open ``model`` for ``window`` tokens."""
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.native.library import native_library
        from agentrt.runtime.model.tokenizer import Tokenizer

        directory = open_model_directory(model, native=native_library)
        self._window = window
        self._model: Pieces = open_whole(
            directory, RuntimeConfig().device_properties(keeps_weights=directory.keeps_weights), window
        )
        self._tokenizer = Tokenizer(directory, self._model.vocabulary_size)

    def tokens(self, text: str) -> list[int]:
        """Return the first tokens of ``text``."""
        return self._tokenizer.encode(text)[: self._window]

    def log_probabilities(self, tokens: list[int]) -> list[float]:
        """Return that of each token after those before it, without the first."""
        return self._model.log_probabilities(tokens, 0)[0]


class _LlamaCpp(LlamaCpp):
    """llama.cpp's server, which tells the log-probabilities of given tokens.

    It tells only those of tokens that it samples. So each token is a request of its own, in which a bias
    makes the server sample that token; it tells the log-probabilities before biases.
    """

    def log_probabilities(self, windows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return that of each token of each window after those before it, without the first."""

        def of_window(slot: int, tokens: Sequence[int]) -> list[float]:
            return [self._log_probability(slot, tokens[:at], tokens[at]) for at in range(1, len(tokens))]

        # All windows at once: the server decodes them in one batch.
        with ThreadPoolExecutor(len(windows)) as pool:
            return list(pool.map(of_window, range(len(windows)), windows))

    def _log_probability(self, slot: int, before: Sequence[int], token: int) -> float:
        body: dict[str, Any] = {
            "prompt": list(before), "id_slot": slot, "cache_prompt": True, "n_predict": 1, "n_probs": 1,
            "temperature": 0, "logit_bias": [[token, _FORCED]],
        }  # fmt: skip
        [sampled] = self.post("/completion", body)["completion_probabilities"]
        if sampled["id"] != token:
            raise ValueError(f"llama.cpp sampled token {sampled['id']} and not {token}, which was forced.")
        return float(sampled["logprob"])
