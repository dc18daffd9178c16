"""Perplexity of real text, here and in llama.cpp, on the same GGUF file and the same tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ..common.process import SideProcess
from ..common.workloads import read_records
from .llama_cpp import LlamaCpp
from .runtime_side import use_cache

FILE: Final = "spec_bench.jsonl"
"""Its records have news articles and passages of an encyclopedia as their contexts."""


class _Record(BaseModel):
    context: str = ""


@dataclass(frozen=True, slots=True)
class Perplexities:
    """Exponentials of the mean negative log-probability of a token after those before it in its window."""

    tokens: int
    """How many tokens were predicted."""
    ours: float
    llama_cpp: float


def load_texts(folder: Path, count: int) -> list[str]:
    """Return ``count`` texts of a page each, spread evenly over those in ``folder``.

    Raises:
        WorkloadNotFoundError: the file is not there.
        WorkloadFormatError: a line cannot be read.
    """
    texts = [record.context for record in read_records(folder / FILE, _Record) if record.context]
    return texts[:: max(1, len(texts) // count)][:count]


def compare_perplexities(
    model: str,
    cache: str,
    texts: Sequence[str],
    window: int,
    threads: int,
    progress: Callable[[str], None],
) -> Perplexities:
    """Predict every token of the first ``window`` tokens of each text but its first."""
    progress(f"perplexity of {len(texts)} texts")
    with SideProcess(_Scorer, model, cache, window) as scorer:
        windows: list[list[int]] = [scorer.call("tokens", text) for text in texts]
        ours = [value for each in windows for value in scorer.call("log_probabilities", each)]
    progress(f"perplexity of {len(texts)} texts in llama.cpp")
    with LlamaCpp(model, threads, window + 1, sequences=len(windows)) as peer:
        theirs = [value for each in peer.log_probabilities(windows) for value in each]
    return Perplexities(len(ours), exp(-sum(ours) / len(ours)), exp(-sum(theirs) / len(theirs)))


class _Scorer:
    """The kernels of the runtime with its default settings, on paged attention."""

    def __init__(self, model: str, cache: str, window: int) -> None:
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.heg.kernel import KernelKind
        from agentrt.runtime.heg.partition import Partition
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.openvino_core import load_on_own_thread
        from agentrt.runtime.model.paged import read_paged_graph
        from agentrt.runtime.model.tokenizer import Tokenizer

        from ..common.pieces import Pieces

        use_cache(cache)
        directory = open_model_directory(model)
        self._window = window
        pieces = {KernelKind.LAYERS: Partition(read_paged_graph(directory)).layer_segments(())}
        properties = RuntimeConfig().device_properties()
        self._model = load_on_own_thread(lambda: Pieces(pieces, properties, window))
        self._tokenizer = Tokenizer(directory, self._model.vocabulary_size)

    def tokens(self, text: str) -> list[int]:
        """The first tokens of ``text``."""
        return self._tokenizer.encode(text)[: self._window]

    def log_probabilities(self, tokens: list[int]) -> list[float]:
        """Of each token after those before it, without the first."""
        import numpy as np

        logits = self._model.forward(tokens, 0, rows=len(tokens))[:-1].astype(np.float64)
        chosen = logits[np.arange(len(tokens) - 1), tokens[1:]]
        found: list[float] = (chosen - np.logaddexp.reduce(logits, axis=1)).tolist()
        return found
