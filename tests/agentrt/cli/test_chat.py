import asyncio
import io
import itertools
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from rich.console import Console

from agentrt.cli.chat import _Conversation
from agentrt.errors import InvalidRequestError, PromptTooLongError


@pytest.fixture(autouse=True)
def interrupts_reach_python() -> Iterator[None]:
    """Where the tests run in the background, a shell may have had this process ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word} is a word"


class Echo(BaseChatModel):
    """Repeats the last message; calls a tool first if that is ``look``."""

    requests: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "echo"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.requests.append(messages)
        last = messages[-1]
        if last.text == "interrupt":
            signal.raise_signal(signal.SIGINT)
        if last.text == "refused":
            raise InvalidRequestError("messages", "cannot be read. Write it otherwise.")
        if last.text == "long":
            raise PromptTooLongError(9000, 2048, "the model's context", "Ask something shorter.")
        calls = [{"name": "look_up", "args": {"word": "roof"}, "id": "c1"}] if last.text == "look" else []
        message = AIMessage("" if calls else f"you said {last.text}", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        result = self._generate(messages)
        if messages[-1].text == "interrupt":
            await asyncio.Event().wait()  # until the interrupt cancels it
        if messages[-1].text == "interrupt twice":
            signal.raise_signal(signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                signal.raise_signal(signal.SIGINT)  # while the answer is being stopped
        return result


class Chat:
    """A conversation with an echo; ``say`` runs it on some lines and returns what was printed."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.model = Echo(requests=[])
        self.printed = io.StringIO()
        self._runner = runner

    def say(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *lines: str,
        characters: int = 10_000,
        interrupt_after: int | None = None,
    ) -> str:
        return self._run(
            monkeypatch,
            io.StringIO("".join(f"{line}\n" for line in lines)),
            characters=characters,
            interrupt_after=interrupt_after,
        )

    def say_bytes(self, monkeypatch: pytest.MonkeyPatch, lines: bytes) -> str:
        return self._run(monkeypatch, io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8"))

    def _run(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stdin: io.StringIO | io.TextIOWrapper,
        characters: int = 10_000,
        interrupt_after: int | None = None,
    ) -> str:
        """Run a conversation; its note behind turn ``interrupt_after`` is interrupted."""
        monkeypatch.setattr("sys.stdin", stdin)
        counts = itertools.count()

        def claims() -> int:
            count = next(counts)
            if interrupt_after is not None and count == 2 * interrupt_after - 1:
                signal.raise_signal(signal.SIGINT)
            return count

        agent = create_agent(self.model, [look_up])
        _Conversation(agent, self._runner, Console(file=self.printed, width=200), characters).run(claims)
        return self.printed.getvalue()


@pytest.fixture
def chat() -> Iterator[Chat]:
    with asyncio.Runner() as runner:
        yield Chat(runner)


def test_it_answers_line_by_line_until_the_input_ends(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = chat.say(monkeypatch, "hello", "", "  ", "bye")
    assert "you said hello" in printed
    assert "you said bye" in printed
    assert " s, 1 tool call predicted)" in printed
    assert len(chat.model.requests) == 2  # no request for the empty lines


def test_it_shows_tool_calls(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = chat.say(monkeypatch, "look")
    assert '* look_up(word="roof")' in printed
    assert "= roof is a word" in printed
    assert "you said roof is a word" in printed


def test_the_conversation_is_remembered(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.say(monkeypatch, "one", "two")
    assert [message.text for message in chat.model.requests[-1]] == ["one", "you said one", "two"]


def test_only_as_many_whole_turns_as_fit_are_remembered(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.say(monkeypatch, "x" * 300, "two", "three", characters=300)
    assert [message.text for message in chat.model.requests[1]] == ["two"]
    assert [message.text for message in chat.model.requests[2]] == ["two", "you said two", "three"]


def test_an_interrupt_stops_the_answer_and_not_the_chat(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = chat.say(monkeypatch, "interrupt", "next")
    assert "(stopped)" in printed
    assert "you said next" in printed
    assert [message.text for message in chat.model.requests[-1]] == ["next"]


def test_a_second_interrupt_stops_the_answer_and_not_the_chat(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = chat.say(monkeypatch, "one", "interrupt twice", "next")
    assert "(stopped)" in printed
    assert [message.text for message in chat.model.requests[-1]] == ["one", "you said one", "next"]


def test_an_interrupt_outside_of_an_answer_does_not_end_the_chat(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = chat.say(monkeypatch, "one", "next", interrupt_after=1)
    assert "you said next" in printed


def test_bytes_that_are_no_utf8_are_replaced(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.say_bytes(monkeypatch, b"one\ncaf\xe9\nnext\n")
    asked = [message.text for message in chat.model.requests[-1]]
    assert asked == ["one", "you said one", "caf\ufffd", "you said caf\ufffd", "next"]


def test_a_line_from_a_terminal_that_is_no_utf8_is_replaced(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.say(monkeypatch, "one", "caf\udce9")  # readline escapes such bytes
    assert chat.model.requests[-1][-1].text == "caf\ufffd"


def test_a_request_that_is_refused_keeps_the_conversation(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = chat.say(monkeypatch, "one", "refused", "next")
    assert "cannot be read" in printed
    assert [message.text for message in chat.model.requests[-1]] == ["one", "you said one", "next"]


def test_a_prompt_that_is_too_long_is_explained_and_the_chat_goes_on(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = chat.say(monkeypatch, "one", "long", "next")
    assert "the prompt has 9000 tokens" in printed
    assert [message.text for message in chat.model.requests[-1]] == ["next"]
