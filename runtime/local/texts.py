"""What a model's texts need, loaded on a thread beside the model: tokenizer, format of calls, grammars."""

from __future__ import annotations

import contextlib
import functools
import threading
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Self

from agentrt.calls import ToolCallFormat, detect_tool_call_format
from agentrt.concurrency.threads import start_in_thread
from agentrt.errors import ModelFormatError

from ..config import RuntimeConfig
from ..model.directory import ModelDirectory, conversion_errors
from ..model.tokenizer import Tokenizer
from ..structured_output.manager import StructuredOutputManager

_QUIET_S: Final = 1.0
"""Seconds behind an opening, in which the first answer would wait for Python's global lock."""


@dataclass(frozen=True, slots=True)
class ModelTexts:
    """What turns texts into tokens and back, and holds answers to grammars."""

    tokenizer: Tokenizer
    call_format: ToolCallFormat | None
    """Format in which the model is expected to write tool calls; None if it takes no tools."""
    structured_output: StructuredOutputManager

    @classmethod
    def load(cls, directory: ModelDirectory, config: RuntimeConfig, vocabulary_size: int) -> Self:
        """Load the tokenizer of ``directory``, whose model knows ``vocabulary_size`` tokens.

        Raises:
            ModelFormatError: it is damaged, or its vocabulary cannot be read.
        """
        with conversion_errors(directory.conversion):
            tokenizer = Tokenizer(directory, vocabulary_size, tool_prompt=config.tool_prompt == "auto")
        call_format = (
            ToolCallFormat.JSON_MESSAGE
            if tokenizer.writes_tool_prompt
            else detect_tool_call_format(tokenizer.chat_template, directory.model_id)
        )
        manager = StructuredOutputManager(
            call_format,
            tokenizer.token_bytes,
            tokenizer.end_token_ids,
            constrain_calls=config.constrain_tool_calls,
        )
        return cls(tokenizer, call_format, manager)


class TextsLoader(AbstractContextManager["TextsLoader"]):
    """A thread that loads them once. It ends within the ``with`` block, however the block ends.

    It holds Python's global lock nearly all of the time, and OpenVINO compiles a model without the lock.
    """

    def __init__(self, directory: ModelDirectory, config: RuntimeConfig) -> None:
        """Of the model in ``directory``."""
        self._load = functools.partial(ModelTexts.load, directory, config)
        self._loading: Future[ModelTexts] | None = None

    def begin(self, vocabulary_size: int) -> None:
        """Begin; see :meth:`ModelTexts.load`."""
        load = functools.partial(self._load, vocabulary_size)
        self._loading = start_in_thread(load, name="agentrt-texts", daemon=False)

    def result(self) -> ModelTexts:
        """Wait for them; raises what :meth:`ModelTexts.load` raises."""
        assert self._loading is not None, "it has begun"
        return self._loading.result()

    def __exit__(self, *error: object) -> None:
        """Wait for the end of the thread."""
        if self._loading is not None:
            wait([self._loading])


class GrammarPreparation:
    """A thread that prepares grammars soon behind an opening, so that hardly a request waits for it."""

    def __init__(self, structured_output: StructuredOutputManager) -> None:
        """Begin. Stop it in the end."""
        self._structured_output = structured_output
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentrt-grammars", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. May be called again."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        if not self._stopping.wait(_QUIET_S):
            with contextlib.suppress(ModelFormatError):  # the request that needs them raises it again
                self._structured_output.prepare()
