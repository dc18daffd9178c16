"""`LocalSpeculator`: drafts by a small local model on OpenVINO GenAI."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path
from types import NoneType
from typing import Any

from agentrt.argument_checks import check_setting
from agentrt.calls import (
    CallFinished,
    MessageParser,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    ToolDefinitions,
    find_tool_call_format,
)
from agentrt.concurrency.handover import produced_elsewhere
from agentrt.concurrency.native_calls import native_calls
from agentrt.concurrency.threads import start_in_thread
from agentrt.drafts import DraftCharge, DraftRequest
from agentrt.errors import (
    ConfigurationError,
    MissingExtraError,
    ModelFormatError,
    ModelNotFoundError,
    PromptTooLongError,
)

# The lengths of a sample at which to check whether it begins with text.
_LOOK_AFTER_TOKENS = (1, 4)
_QUICK_S = 0.05
_WARM_UP_TOKENS = 16
# How many tokens longer than the greedy sample the others may be.
_TOKENS_MORE = 8


class LocalSpeculator:
    """Lets a small model in this process predict the main model's next call.

    The first sample is greedy, so that more samples never predict worse. The others are sampled at
    ``temperature``, in one batch, unless the greedy one begins with text; an incomplete or malformed call
    does not prevent them. The model runs in a thread and releases the interpreter lock while it computes.

    Calls of the offered tools are also read in other formats than ``format``, as
    :class:`agentrt.calls.MessageParser` reads them.

    The greedy sample stops within one token after the turn is closed, because the main model has answered or
    the turn was cancelled. It also stops if its first token, or its first 4, contain text outside a call.
    Two cases are not stopped: the other samples, because OpenVINO GenAI cannot stop a batch (they are limited
    to 8 tokens more than the greedy one instead), and a model that decodes ``max_tokens`` in 50 ms, because
    inspecting its tokens would take longer. One turn decodes at a time; others wait.

    Tokens are charged when they are read, and those written also if the sample is stopped. A prompt that the
    budget does not allow is not read.
    """

    def __init__(
        self,
        model_directory: str | os.PathLike[str],
        *,
        samples: int | None = None,
        temperature: float = 0.7,
        format: ToolCallFormat | str = ToolCallFormat.HERMES,
        max_tokens: int = 128,
        threads: int | None = None,
        shares_cores: bool = True,
    ) -> None:
        """Load the OpenVINO model in ``model_directory`` (blocks).

        ``samples`` overrides the session's number; ``format``, or its name, is how the model
        writes calls; ``threads`` bounds its CPU threads, for a draft that shares the cores with the
        main model. ``shares_cores`` False says that it does not slow the main model down, because it is very
        small or cores are left for it; then no turn goes without it to measure that.

        Raises:
            MissingExtraError: OpenVINO GenAI is not installed.
            ModelNotFoundError, ModelFormatError: the directory has no model that can be loaded.
            ForkedProcessError: this process was forked from one that had opened a model.
            ConfigurationError: ``samples`` is below 1, or there is no format of this name.
        """
        try:
            import openvino_genai
        except ModuleNotFoundError as error:
            raise MissingExtraError("openvino-genai", "runtime") from error
        check_setting("model_directory", model_directory, (str, os.PathLike), "the path of a directory")
        check_setting("samples", samples, (int, NoneType), "a whole number of at least 1")
        directory = Path(model_directory)
        if samples is not None and samples < 1:
            raise ConfigurationError(f"samples is {samples}. Use at least 1.")
        if not (directory / "openvino_model.xml").is_file():
            raise ModelNotFoundError(
                f"{directory} holds no openvino_model.xml. Name a directory as optimum-intel exports it."
            )
        self.name = f"local {directory.name}"
        self.shares_cores = shares_cores
        self._samples = samples
        self._temperature = temperature
        self._format = find_tool_call_format(format)
        self._max_tokens = max_tokens
        try:
            # OpenVINO gives the thread that loads a model an alternate signal stack that may be freed before
            # the next Ctrl-C, so the model is not loaded in the caller's thread.
            with native_calls:
                loading = start_in_thread(
                    functools.partial(_load, openvino_genai, directory, threads),
                    name=f"agentrt load {self.name}",
                    daemon=False,
                )
                self._tokenizer, self._pipeline = loading.result()
        except RuntimeError as error:
            raise ModelFormatError(
                f"OpenVINO GenAI cannot load {directory}: {error}. Export the model again."
            ) from error
        self._context = _context_of(directory)
        self._end_tokens = self._pipeline.get_generation_config().stop_token_ids
        self._busy = threading.Lock()
        self._pieces: dict[int, str] = {}
        self._stopper = _stopper_type(openvino_genai)
        with native_calls:
            self._is_quick = self._warm_up() * max_tokens < _QUICK_S
        native_calls.keep_in_forks(self)

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of each sample when it is complete."""
        cancelled = threading.Event()

        def start(put: Callable[[ToolCall], None]) -> Future[None]:
            def work() -> None:
                for call in self._generate(request, cancelled):
                    put(call)

            # Not a daemon, so that an interpreter that ends waits for it. `native_calls` waits for one that
            # is started too late for that.
            return start_in_thread(work, name=f"agentrt {self.name}", daemon=False)

        produced = produced_elsewhere(start)
        try:
            async with aclosing(produced):
                async for call in produced:
                    yield call
        finally:
            cancelled.set()

    def _generate(self, request: DraftRequest, cancelled: threading.Event) -> Iterator[ToolCall]:
        """Decode the samples (blocks); yield the calls of each, until ``cancelled`` is set."""
        native_calls.check()  # a forked child may find the lock held for ever
        with self._busy, native_calls:
            if cancelled.is_set():
                return
            prompt = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in request.messages],
                add_generation_prompt=True,
                tools=[dict(tool) for tool in request.tools],
            )
            tokens = self._tokenizer.encode(prompt, add_special_tokens=False)
            length = tokens.input_ids.get_shape()[1]
            if self._context is not None and length >= self._context:
                raise PromptTooLongError(
                    length, self._context, f"the context of {self.name}", "use a draft with a longer context"
                )
            charge = DraftCharge(request)
            if not charge.send(length):
                return
            offered = ToolDefinitions(request.tools, trusted=self._format)
            greedy = self._decode(tokens, cancelled, offered)
            charge.correct(length, len(greedy))
            if cancelled.is_set() or self._begins_with_text(greedy, offered):
                return
            yield from self._calls(greedy, offered)
            drawn = (self._samples or request.samples) - 1
            if drawn and not cancelled.is_set():
                longest = min(self._max_tokens, len(greedy) + _TOKENS_MORE)
                drawn_samples = self._pipeline.generate(tokens, self._settings(longest, drawn)).tokens
                charge.correct(length, len(greedy) + sum(map(len, drawn_samples)))
                for sample in drawn_samples:
                    yield from self._calls(sample, offered)

    def _decode(self, prompt: Any, cancelled: threading.Event, offered: ToolDefinitions) -> list[int]:
        """Return the tokens of the greedy sample, or those decoded until it was stopped."""
        settings = self._settings(self._max_tokens)
        if self._is_quick:
            tokens: list[int] = self._pipeline.generate(prompt, settings).tokens[0]
            return tokens

        def stop(written: list[int]) -> bool:
            looks = len(written) in _LOOK_AFTER_TOKENS
            return cancelled.is_set() or (looks and self._begins_with_text(written, offered))

        stopper = self._stopper(stop)
        self._pipeline.generate(prompt, settings, stopper)
        written: list[int] = stopper.tokens
        return written

    def _warm_up(self) -> float:
        """Compile the kernels, so that the first turn is not late; return the seconds per token."""
        prompt = self._tokenizer.encode("warm")
        settings = self._settings(_WARM_UP_TOKENS)
        settings.ignore_eos = True
        self._pipeline.generate(prompt, settings)
        started = time.perf_counter()
        self._pipeline.generate(prompt, settings)
        return (time.perf_counter() - started) / _WARM_UP_TOKENS

    def _settings(self, max_tokens: int, drawn: int = 0) -> Any:
        """Return the generation config of one greedy sample, or of ``drawn`` samples at the temperature."""
        config = self._pipeline.get_generation_config()
        config.max_new_tokens = max_tokens
        config.apply_chat_template = False
        config.do_sample = drawn > 0
        config.num_return_sequences = max(drawn, 1)
        if drawn:
            config.temperature = self._temperature
        return config

    def _begins_with_text(self, tokens: list[int], offered: ToolDefinitions) -> bool:
        """Whether the first tokens of a sample contain text that is not, and does not begin, a call."""
        begun = "".join(map(self._piece, tokens[: _LOOK_AFTER_TOKENS[-1]]))
        events = MessageParser(self._format, offered).feed(begun)
        return any(isinstance(event, TextDelta) and event.text.strip() for event in events)

    def _calls(self, tokens: list[int], offered: ToolDefinitions) -> Iterator[ToolCall]:
        # The call tags of some models are special tokens, which decoding skips by default.
        text: str = self._tokenizer.decode(self._without_end(tokens), skip_special_tokens=False)
        parser = MessageParser(self._format, offered)
        for event in parser.feed(text) + parser.close():
            if isinstance(event, CallFinished):
                yield event.call

    def _without_end(self, tokens: list[int]) -> list[int]:
        """Return the tokens of an answer without the one that ended it, whose text would be part of it."""
        return tokens[:-1] if tokens and tokens[-1] in self._end_tokens else tokens

    def _piece(self, token: int) -> str:
        """Return the text of one token, cached: few tokens begin a sample, and decoding takes time."""
        if token not in self._pieces:
            self._pieces[token] = self._tokenizer.decode([token], skip_special_tokens=False)
        return self._pieces[token]


def _load(genai: Any, directory: Path, threads: int | None) -> tuple[Any, Any]:
    """Return the tokenizer and the pipeline of a model; ``threads`` None leaves the number to OpenVINO."""
    scheduling = genai.SchedulerConfig()
    scheduling.enable_prefix_caching = True  # the next turn repeats this one's prompt
    # OpenVINO would pin this model and the main one to the same first core.
    properties: dict[str, Any] = {"ENABLE_CPU_PINNING": False}
    if threads is not None:
        properties["INFERENCE_NUM_THREADS"] = threads
    # Tokenizing is too little work to be spread over the cores that the main model uses.
    tokenizer = genai.Tokenizer(str(directory), INFERENCE_NUM_THREADS=1)
    pipeline = genai.LLMPipeline(str(directory), tokenizer, "CPU", scheduler_config=scheduling, **properties)
    return tokenizer, pipeline


def _stopper_type(genai: Any) -> Any:
    """Return the class of a streamer that collects tokens until its condition is true."""

    class Stopper(genai.StreamerBase):  # type: ignore[misc]
        def __init__(self, condition: Callable[[list[int]], bool]) -> None:
            super().__init__()
            self.tokens: list[int] = []
            self._condition = condition

        def write(self, token: int | list[int]) -> Any:
            self.tokens += token if isinstance(token, list) else [token]
            stop = self._condition(self.tokens)
            return genai.StreamingStatus.CANCEL if stop else genai.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    return Stopper


def _context_of(directory: Path) -> int | None:
    """Return the model's context length in tokens; None if its configuration has none."""
    config = directory / "config.json"
    if not config.is_file():
        return None
    length: int | None = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
    return length


def _for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an OpenAI message for chat templates: call arguments as objects, content as text."""
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
