"""Guesses with a small local model on OpenVINO GenAI, beside whatever the main model runs on."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agentrt._completion import produced_elsewhere
from agentrt._threads import start_in_thread
from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.drafts import DraftRequest
from agentrt.errors import (
    ConfigurationError,
    MissingExtraError,
    ModelFormatError,
    ModelNotFoundError,
    PromptTooLongError,
)


class LocalSpeculator:
    """Asks a small model in this process for the call the main model is about to make.

    All samples are decoded in one batch; the first is greedy, so that more samples never guess worse, the
    others are drawn at ``temperature``. The model runs in a thread and lets go of the interpreter while it
    computes. It stops within one token of the main model's answer, so that it takes no time from what
    comes next. One draft runs at a time; those of other turns wait.
    """

    def __init__(
        self,
        model_directory: str | os.PathLike[str],
        *,
        samples: int | None = None,
        temperature: float = 0.7,
        format: ToolCallFormat = ToolCallFormat.HERMES,
        max_tokens: int = 128,
        threads: int | None = None,
    ) -> None:
        """Load the OpenVINO model in ``model_directory`` (blocks).

        ``samples`` overrides the number that the session asks for; ``format`` is how the model writes
        calls; ``threads`` bounds its CPU threads, for a draft that shares the cores with the main model.

        Raises:
            MissingExtraError: OpenVINO GenAI is not installed.
            ModelNotFoundError, ModelFormatError: there is no usable model in that directory.
            ConfigurationError: ``samples`` is below 1.
        """
        try:
            import openvino_genai
        except ModuleNotFoundError as error:
            raise MissingExtraError("openvino-genai", "runtime") from error
        directory = Path(model_directory)
        if samples is not None and samples < 1:
            raise ConfigurationError(f"samples is {samples}: use at least 1.")
        if not (directory / "openvino_model.xml").is_file():
            raise ModelNotFoundError(
                f"{directory} holds no openvino_model.xml. Name a directory as optimum-intel exports it."
            )
        self.name = f"local {directory.name}"
        self._samples = samples
        self._temperature = temperature
        self._format = format
        self._max_tokens = max_tokens
        self._genai = openvino_genai
        scheduling = openvino_genai.SchedulerConfig()
        scheduling.enable_prefix_caching = True  # the next turn repeats this one's prompt
        try:
            # The pipeline below LLMPipeline: that one cannot be stopped while it decodes several samples.
            self._pipeline = openvino_genai.ContinuousBatchingPipeline(
                str(directory),
                scheduling,
                "CPU",
                {} if threads is None else {"INFERENCE_NUM_THREADS": threads},
            )
        except RuntimeError as error:
            raise ModelFormatError(
                f"OpenVINO GenAI cannot load {directory}: {error}. Export the model again."
            ) from error
        self._tokenizer = self._pipeline.get_tokenizer()
        self._context = _context_of(directory)
        self._busy = threading.Lock()
        self._request_ids = itertools.count()
        # The first inference compiles kernels, which would cost the first turn its guess.
        self._submit(self._tokenizer.encode("warm").input_ids, sampled=0, max_tokens=1)
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of each sample as it ends."""
        unwanted = threading.Event()

        def start(put: Callable[[ToolCall], None]) -> Future[None]:
            def work() -> None:
                for call in self._generate(request, unwanted):
                    put(call)

            return start_in_thread(work, name=f"agentrt {self.name}")

        produced = produced_elsewhere(start)
        try:
            async with aclosing(produced):
                async for call in produced:
                    yield call
        finally:
            unwanted.set()

    def _generate(self, request: DraftRequest, unwanted: threading.Event) -> Iterator[ToolCall]:
        """Decode all samples, blocking; yields the calls of each that ends before it is ``unwanted``."""
        with self._busy:
            if unwanted.is_set():
                return
            prompt = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in request.messages],
                add_generation_prompt=True,
                tools=[dict(tool) for tool in request.tools],
            )
            tokens = self._tokenizer.encode(prompt, add_special_tokens=False).input_ids
            length = tokens.get_shape()[1]
            if self._context is not None and length >= self._context:
                raise PromptTooLongError(
                    length, self._context, f"the context of {self.name}", "Use a draft with a longer context."
                )
            count = self._samples or request.samples
            handles = [self._submit(tokens, sampled=0, max_tokens=self._max_tokens)]
            if count > 1:
                handles.append(self._submit(tokens, sampled=count - 1, max_tokens=self._max_tokens))
            yield from self._decode(handles, unwanted)

    def _submit(self, tokens: Any, *, sampled: int, max_tokens: int) -> Any:
        """Add one request to the batch: one greedy sample, or ``sampled`` drawn ones."""
        config = self._pipeline.get_config()
        config.max_new_tokens = max_tokens
        config.apply_chat_template = False
        config.do_sample = sampled > 0
        config.num_return_sequences = max(sampled, 1)
        if sampled:
            config.temperature = self._temperature
        return self._pipeline.add_request(next(self._request_ids), tokens, config)

    def _decode(self, handles: Sequence[Any], unwanted: threading.Event) -> Iterator[ToolCall]:
        tokens: dict[tuple[int, int], list[int]] = {}
        while self._pipeline.has_non_finished_requests():
            if unwanted.is_set():
                for handle in handles:
                    handle.stop()
            self._pipeline.step()
            for place, handle in enumerate(handles):
                while not unwanted.is_set() and handle.can_read():
                    for sample, output in handle.read().items():
                        written = tokens.setdefault((place, sample), [])
                        written += output.generated_ids
                        if output.finish_reason != self._genai.GenerationFinishReason.NONE:
                            yield from self._calls(written)

    def _calls(self, tokens: list[int]) -> tuple[ToolCall, ...]:
        # Some models' call tags are special tokens, and then part of what is skipped by default.
        text = self._tokenizer.decode(tokens, skip_special_tokens=False)
        return parse_tool_calls(text, self._format)[1]


def _context_of(directory: Path) -> int | None:
    """The most tokens the model was made for, if its configuration says so."""
    config = directory / "config.json"
    if not config.is_file():
        return None
    length: int | None = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
    return length


def _for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Bring an OpenAI message into the shape templates take: call arguments as objects, content as text."""
    shaped = {key: value for key, value in message.items() if value is not None}
    content = shaped.get("content", "")
    if not isinstance(content, str):
        content = "".join(part.get("text", "") for part in content)
    shaped["content"] = content
    if "tool_calls" in shaped:
        shaped["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
            for call in shaped["tool_calls"]
        ]
    return shaped
