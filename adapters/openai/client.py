"""An OpenAI client whose requests for model answers open turns."""

from __future__ import annotations

import functools
import logging
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import openai
from openai import AsyncStream, Stream

from agentrt.calls import ToolCall
from agentrt.concurrency.hosts import Host, running_loop, worker_loop
from agentrt.drafts import DraftRequest, Speculator
from agentrt.errors import ConfigurationError
from agentrt.lookahead.ahead import AheadRequest
from agentrt.tools.scopes import current_scope
from agentrt.tools.toolbox import Toolbox
from agentrt.turns.shared import SharedState
from agentrt.turns.turn import Turn

from .ahead import ClientRequest, hands_out_the_connection, parsed
from .answers import AnswerReader, ChatReader, ResponsesReader
from .requests import ResponseHistory, after_answered, chat_request
from .tool_cache import ToolCacheEndpoint

Client = TypeVar("Client", openai.OpenAI, openai.AsyncOpenAI)
logger = logging.getLogger("agentrt")


@dataclass(frozen=True, slots=True)
class Setup:
    """What all copies of one speculating client share."""

    predictors: tuple[Speculator, ...]
    toolbox: Toolbox
    context: SharedState
    tool_cache: ToolCacheEndpoint | None = None
    """None if results are not to be submitted."""


def setup_of(client: Any) -> Setup:
    """Return the setup of a speculating client; raises :class:`ConfigurationError` for any other."""
    setup = getattr(client, "_agentrt_setup", None)
    if not isinstance(setup, Setup):
        raise ConfigurationError(f"{type(client).__name__} does not speculate. Pass it to speculate() first.")
    return setup


def speculating_copy(client: Client, setup: Setup) -> Client:
    """Return a copy of ``client`` that speculates under ``setup``."""
    plain = type(client).__dict__.get("_agentrt_base", type(client))
    copy = plain.copy(client)
    copy.__class__ = _speculating_class(plain)
    copy._agentrt_setup = setup
    copy._agentrt_history = ResponseHistory()
    return copy  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Asked:
    """A request for an answer under way, and who reads the answer."""

    client: Any
    path: str
    body: dict[str, Any]
    host: Host
    turn: Turn
    reader: AnswerReader
    main: ClientRequest | None = None
    """The request, where requests are made ahead."""
    ahead: AheadRequest[Turn] | None = None
    """The request that was made ahead for this one, if there is one."""
    response_id: str | None = None

    def answered(self, result: Any, events: Any = None) -> None:
        """Take what the client returns to the user, and bind the turn now or when the stream ends.

        ``events`` are those of the stream, where others read it.
        """
        result = parsed(result)
        if isinstance(result, (Stream, AsyncStream)):
            weakref.finalize(result, self._leave)  # in case nobody reads it
            read: Any = self._read if isinstance(result, Stream) else self._aread
            result._iterator = read(result._iterator if events is None else events)
            return
        with self.turn, self._unharmed():
            calls = self.reader.whole(result)
            if calls is not None:
                self._bind(calls)

    def keep_blocking(self) -> Any:
        """Return what was answered ahead, or None if there is nothing, or it failed."""
        if self.main is None or self.ahead is None:
            return None
        pieces = self.ahead.answer_blocking()
        try:
            answer = next(pieces)
        except Exception:  # noqa: BLE001 - of a request that was not due; this one is
            return None
        if not answer.streamed:
            pieces.close()
        result = answer.parsed_by(self.main.parser)
        self.answered(result, pieces)
        return result

    async def keep(self) -> Any:
        """:meth:`keep_blocking` for the async client."""
        if self.main is None or self.ahead is None:
            return None
        pieces = self.ahead.answer()
        try:
            answer = await anext(pieces)
        except Exception:  # noqa: BLE001 - as above
            return None
        if not answer.streamed:
            await pieces.aclose()
        result = answer.parsed_by(self.main.parser)
        self.answered(result, pieces)
        return result

    def _bind(self, calls: Sequence[ToolCall]) -> None:
        self.turn.bind(calls, generation_s=None if self.ahead is None else self.ahead.generation_s)

    def _read(self, events: Generator[Any, None, None]) -> Generator[Any, None, None]:
        try:
            with closing(events):
                for event in events:
                    self._note(event)
                    yield event
        finally:
            self.turn.discard()

    async def _aread(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(events):
                async for event in events:
                    self._note(event)
                    yield event
        finally:
            self.turn.discard()

    def _note(self, event: Any) -> None:
        with self._unharmed():
            if self.response_id is None:
                self.response_id = getattr(getattr(event, "response", event), "id", None)
                self._submit_results()
            for seen in self.reader.events(event):
                self.turn.observe(seen)
            answered = self.reader.answered()
            if answered:
                self._go_on(answered)
            # Before the event is handed on: whoever gets the last one may make the calls at once.
            calls = self.reader.finished()
            if calls is not None:
                self._bind(calls)

    def _leave(self) -> None:
        self.turn.discard()
        if self.ahead is not None:
            self.ahead.stop()

    def _submit_results(self) -> None:
        endpoint = setup_of(self.client).tool_cache
        if endpoint is not None and self.response_id is not None:
            endpoint.follow(self.turn, self.client, self.response_id)

    def _go_on(self, answered: Sequence[tuple[ToolCall, str]]) -> None:
        """Take calls that the endpoint has answered, and speculate on what the answer goes on to."""
        self.turn.bind_answered([call for call, _ in answered])
        self.body = after_answered(self.path, self.body, answered)
        self.turn = _begin_turn(self.client, self.path, self.body, self.host)
        self.ahead = None
        self._submit_results()

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """Keep from the user what is wrong with an answer that they may never look at."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the client does not validate what servers send
            self.turn.discard()
            logger.warning("an answer could not be read for its tool calls: %s", type(error).__name__)


def _ask(client: Any, path: str, body: Any, options: Mapping[str, Any], host: Host) -> _Asked | None:
    """Start to speculate on the answer to this request, or return None where there is nothing to gain."""
    setup: Setup | None = getattr(client, "_agentrt_setup", None)
    if setup is None or path not in ("/chat/completions", "/responses") or not isinstance(body, dict):
        return None
    if not setup.toolbox.tools or not body.get("tools") or body.get("tool_choice") == "none":
        return None
    reader = ChatReader() if path == "/chat/completions" else ResponsesReader(client._agentrt_history, body)
    book = setup.context.ahead
    main = _main_call(client, path, body, options) if book.enabled else None
    ahead = book.take(current_scope(), main.key if main is not None else "") if book.enabled else None
    turn = ahead.turn if ahead is not None else _begin_turn(client, path, body, host, main)
    return _Asked(client, path, body, host, turn, reader, main, ahead)


def _main_call(
    client: Any, path: str, body: dict[str, Any], options: Mapping[str, Any]
) -> ClientRequest | None:
    """The request, if the next one may be made ahead."""
    if hands_out_the_connection(options):
        return None
    main = ClientRequest(client, path, body, options, client._agentrt_setup.predictors, _drafting(client))
    try:
        return main if main.key else None
    except Exception:  # noqa: BLE001 - the endpoint will say what is wrong with such a history
        return None


def _drafting(client: Any) -> Callable[[str, Mapping[str, Any]], DraftRequest]:
    """Return what makes a request what the predictors are shown of it."""
    history: ResponseHistory = client._agentrt_history
    samples = client._agentrt_setup.context.samples

    def request(path: str, body: Mapping[str, Any]) -> DraftRequest:
        return chat_request(body, samples) if path == "/chat/completions" else history.request(body, samples)

    return request


def _begin_turn(
    client: Any, path: str, body: dict[str, Any], host: Host, main: ClientRequest | None = None
) -> Turn:
    setup: Setup = client._agentrt_setup
    turn = Turn(
        setup.context,
        tools=setup.toolbox.tools,
        predictors=setup.predictors,
        request=functools.partial(_drafting(client), path, body),
        scope=current_scope(),
        main=main,
    )
    turn.start(host)
    return turn


@functools.cache
def _speculating_class(base: Any) -> Any:
    """Return a subclass of ``base`` that speculates; it goes by the name of ``base``.

    All resources of a client send their requests by its ``post``, whether they parse the answer, stream it or
    return it raw.
    """

    @functools.wraps(base.post)
    def post(self: Any, path: str, *, body: Any = None, **options: Any) -> Any:
        asked = _ask(self, path, body, options, worker_loop)
        if asked is None:
            return base.post(self, path, body=body, **options)
        try:
            result = asked.keep_blocking()
            if result is not None:
                return result
            result = base.post(self, path, body=body, **options)
        except BaseException:
            asked.turn.discard()
            raise
        asked.answered(result)
        return result

    @functools.wraps(base.post)
    async def apost(self: Any, path: str, *, body: Any = None, **options: Any) -> Any:
        asked = _ask(self, path, body, options, running_loop)
        if asked is None:
            return await base.post(self, path, body=body, **options)
        try:
            result = await asked.keep()
            if result is not None:
                return result
            result = await base.post(self, path, body=body, **options)
        except BaseException:
            asked.turn.discard()
            raise
        asked.answered(result)
        return result

    @functools.wraps(base.copy)
    def copy(self: Any, **changes: Any) -> Any:
        made = base.copy(self, **changes)
        made._agentrt_setup = self._agentrt_setup
        made._agentrt_history = self._agentrt_history
        return made

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__=base.__module__,
            __qualname__=base.__qualname__,
            __doc__=base.__doc__,
            _agentrt_base=base,
            post=apost if issubclass(base, openai.AsyncOpenAI) else post,
            copy=copy,
            with_options=copy,
        )

    return types.new_class(base.__name__, (base,), {}, fill)
