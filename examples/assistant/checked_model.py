"""A chat model whose answer is checked sentence by sentence before any of it is shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from .checks import LoopDetector, is_call, sentences

_LONGEST: Final = 300
"""Characters of a sentence that is shown before its end."""


class CheckedModel(BaseChatModel):
    """Another chat model up to the first sentence that it may not say, in whose place something else is said.

    A sentence is shown when it is complete; what would follow the last one is not generated.
    """

    model: BaseChatModel
    may_say: Callable[[str], bool]
    otherwise: str
    """What is said in place of a sentence that may not be said, of a call, of a loop and of silence."""

    @property
    def _llm_type(self) -> str:
        return f"checked-{self.model._llm_type}"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("it answers asynchronously only: use ainvoke or astream.")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        whole = AIMessageChunk(content="")
        async with aclosing(self._chunks(messages, options)) as chunks:
            async for chunk in chunks:
                whole += chunk
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with aclosing(self._chunks(messages, options)) as chunks:
            async for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    async def _chunks(
        self, messages: list[BaseMessage], options: dict[str, Any]
    ) -> AsyncGenerator[AIMessageChunk, None]:
        said, pending, loops = "", "", LoopDetector()
        last = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})

        def passes(sentence: str) -> bool:
            return not is_call(said + sentence) and not loops.is_loop(sentence) and self.may_say(sentence)

        # Without this request's callbacks, which would show what was not checked.
        stream: Any = self.model.astream(messages, {"callbacks": []}, **options)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                *complete, pending = sentences(pending + chunk.text) or [""]
                if len(pending) > _LONGEST:  # without an end, as of a list or a loop
                    head, space, rest = pending.rpartition(" ")
                    complete.append(head + space or pending)
                    pending = rest if space else ""
                if chunk.response_metadata.get("finish_reason"):
                    last = AIMessageChunk(
                        content="",
                        response_metadata=chunk.response_metadata,
                        usage_metadata=chunk.usage_metadata,
                    )
                    complete, pending = [*complete, pending], ""
                for sentence in filter(None, complete):
                    if not passes(sentence):
                        yield AIMessageChunk(content=f"{said and ' '}{self.otherwise}")
                        yield last
                        return
                    yield AIMessageChunk(content=sentence)
                    said += sentence
        if not said.strip():
            yield AIMessageChunk(content=self.otherwise)
        yield last
