"""Other engines that draft, each in a process of its own, on the same model and the same prompt tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ..common.llama_cpp import LlamaCppServer
from ..common.process import SideProcess
from .answering import Answer

GENAI_LOOKUP: Final = "OpenVINO GenAI prompt lookup"
GENAI_DRAFT_MODEL: Final = "OpenVINO GenAI draft model"
LLAMA_CPP_NGRAM: Final = "llama.cpp n-gram map"

_LOOKUP_TOKENS: Final = 5
_LOOKUP_NGRAM: Final = 3
_DRAFT_MODEL_TOKENS: Final = 4
_CONTEXT: Final = 4096


class Peer(SideProcess):
    """An engine in its own process; a context manager."""

    def answer(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Return the greedy answer to a prompt of token ids."""
        answer = self.call("answer", list(prompt), max_tokens)
        assert isinstance(answer, Answer)
        return answer


@contextmanager
def open_peers(
    directory: str, draft: str | None, gguf: str | None, threads: int
) -> Iterator[dict[str, Peer]]:
    """Open the peers of the model in an OpenVINO ``directory``.

    ``draft`` is the directory of a draft model with the same vocabulary, ``gguf`` the model's GGUF file for
    llama.cpp; without them these peers are left out.
    """
    with ExitStack() as stack:
        peers = {GENAI_LOOKUP: stack.enter_context(Peer(_PromptLookup, directory))}
        if draft is not None:
            peers[GENAI_DRAFT_MODEL] = stack.enter_context(Peer(_DraftModel, directory, draft))
        if gguf is not None:
            peers[LLAMA_CPP_NGRAM] = stack.enter_context(Peer(_LlamaCpp, gguf, threads))
        yield peers


class _PromptLookup:
    """OpenVINO GenAI's prompt lookup with the settings of its documentation."""

    def __init__(self, directory: str) -> None:
        import openvino_genai

        self._genai = openvino_genai
        self._pipeline = self._open(directory)

    def _open(self, directory: str) -> Any:
        return self._genai.LLMPipeline(directory, "CPU", prompt_lookup=True)

    def _configure(self, config: Any) -> None:
        config.num_assistant_tokens = _LOOKUP_TOKENS
        config.max_ngram_size = _LOOKUP_NGRAM

    def answer(self, prompt: list[int], max_tokens: int) -> Answer:
        import numpy as np
        import openvino

        config = self._pipeline.get_generation_config()
        config.max_new_tokens = max_tokens
        config.do_sample = False
        self._configure(config)
        ids = openvino.Tensor(np.array([prompt], np.int64))
        mask = openvino.Tensor(np.ones((1, len(prompt)), np.int64))
        made = self._pipeline.generate(self._genai.TokenizedInputs(ids, mask), config)
        metrics = made.perf_metrics
        total_s = metrics.get_generate_duration().mean / 1e3
        decode_s = total_s - metrics.get_ttft().mean / 1e3
        return _answer(made.tokens[0], decode_s, total_s)


class _DraftModel(_PromptLookup):
    """OpenVINO GenAI's speculative decoding with a draft model."""

    def __init__(self, directory: str, draft: str) -> None:
        self._draft = draft
        super().__init__(directory)

    def _open(self, directory: str) -> Any:
        draft = self._genai.draft_model(self._draft, "CPU")
        return self._genai.LLMPipeline(directory, "CPU", draft_model=draft)

    def _configure(self, config: Any) -> None:
        config.num_assistant_tokens = _DRAFT_MODEL_TOKENS


class _LlamaCpp:
    """llama.cpp's server on the GGUF file, with its n-gram map."""

    def __init__(self, model: str, threads: int) -> None:
        import xllamacpp

        def draft_from_ngrams(parameters: Any) -> None:
            kind = xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K
            parameters.speculative.types = [kind]

        self._server = LlamaCppServer(model, threads, _CONTEXT, configure=draft_from_ngrams)

    def answer(self, prompt: list[int], max_tokens: int) -> Answer:
        body = {
            "prompt": prompt, "n_predict": max_tokens, "temperature": 0, "cache_prompt": True,
            "return_tokens": True,
        }  # fmt: skip
        made = self._server.post("/completion", body)
        timings = made["timings"]
        decode_s = timings["predicted_ms"] / 1e3
        return _answer(made["tokens"], decode_s, decode_s + timings["prompt_ms"] / 1e3)


def _answer(tokens: Sequence[int], decode_s: float, total_s: float) -> Answer:
    """Return an answer whose forward passes the engine does not tell."""
    return Answer(tuple(tokens), decode_s, total_s, passes=0, verified=0, drafting_s=0.0)
