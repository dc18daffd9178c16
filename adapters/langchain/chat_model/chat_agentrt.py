"""`ChatAgentRT`: the local runtime as a LangChain chat model, made by its class or by its name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import Annotated, Any, Final, Self

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field, Strict, ValidationError, field_validator, model_validator

from agentrt import Priority
from agentrt.argument_checks import check_setting
from agentrt.errors import ConfigurationError, InvalidRequestError, MissingExtraError
from agentrt.settings import invalid_settings
from agentrt.toolcache import current_result_source

from . import named_runtimes
from .answers import AnswerFormat, ChunkConverter, chat_result, chat_result_in_blocks
from .errors import langchain_errors
from .requests import (
    FIELDS_OF_CHAT_OPENAI,
    GenerationRequest,
    count_message_tokens,
    generation_request,
    runtime_options,
)
from .runtime_answers import RuntimeAnswers
from .structured_output import Method, response_format_of, structured_output

# As strict as a request is, in which "5" is no number either.
Bool = Annotated[bool, Strict()]
Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
Stop = list[str] | None
ToolLike = dict[str, Any] | type | Callable[..., Any] | BaseTool

_REQUEST_FIELDS: Final = (
    *("app", "priority", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("frequency_penalty", "presence_penalty", "seed", "stop", "logit_bias", "logprobs", "top_logprobs"),
    *("n", "timeout", "stream_usage"),
)
"""Fields that are options of each request."""


class ChatAgentRT(BaseChatModel):
    """A chat model on :class:`agentrt.runtime.LocalRuntime`, in this process.

    ::

        with LocalRuntime.open("nano") as runtime:
            agent = create_agent(ChatAgentRT(runtime=runtime), tools)

    Give a ``runtime`` to decide when it closes; or only a ``model``, which is then opened at once, unless
    another chat model of this process has opened it: they share one runtime, which closes when they and their
    copies are garbage-collected. Only a chat model that opened its model can be pickled: where it is loaded,
    the model is opened by its name.

    The other fields are those of :meth:`LocalRuntime.generate` and those of ``ChatOpenAI`` that a local model
    can have; they may also be given per request or by ``bind``. With ``priority`` None,
    :func:`agentrt.current_priority` is used. In a LangGraph graph with a ``thread_id``, the requests of the
    thread are a session: a context that the runtime lists (``session``). A ``thread_id`` that cannot name one
    raises :class:`InvalidRequestError`.

    A streamed tool call comes whole, in one chunk: a streamed chunk cannot be taken back, and the first half
    of a malformed call would look like a call. Cancelling the task or closing the stream ends the
    generation in the engine at once. Errors are those of ``LocalRuntime``; where LangChain has a class for
    the same condition, such as ``ContextOverflowError``, they are instances of that, too.
    """

    model_config = ConfigDict(extra="forbid")

    runtime: Any = Field(default=None, exclude=True, repr=False)
    """The :class:`~agentrt.runtime.LocalRuntime` to generate on."""
    model: str = "nano"
    app: str = ""
    """Name of the app: with one, what its threads have computed is kept beyond the KV arena, too."""
    priority: Priority | None = None
    max_tokens: Whole | None = 4096
    """Maximum number of tokens of an answer; None for as many as the context holds. A small model that does
    not find the end of its answer would write until the context is full."""
    temperature: Number = 0.0
    top_p: Number = 1.0
    top_k: Whole = 0
    min_p: Number = 0.0
    repetition_penalty: Number = 1.0
    frequency_penalty: Number = 0.0
    presence_penalty: Number = 0.0
    seed: Whole | None = None
    stop: list[str] | str | None = None
    """Texts that end the answer, unless the request has some; they are not part of it."""
    logit_bias: dict[int, Number] | None = None
    logprobs: Bool | None = None
    """Whether ``response_metadata["logprobs"]`` has the log probability of each token."""
    top_logprobs: Whole | None = None
    """How many alternatives of each token ``logprobs`` has, 0 to 20."""
    n: Whole = Field(default=1, ge=1)
    """Number of answers to each request, which ``generate`` and ``agenerate`` return. With ``seed``, answer
    ``i`` has seed ``seed + i``."""
    timeout: Number | None = Field(default=None, gt=0)
    """Seconds after which a request ends with :class:`DeadlineExceededError`; each retry has as many."""
    max_retries: Whole = Field(default=2, ge=0)
    """How often a request is sent again that the runtime refuses because too many wait."""
    streaming: bool = False
    """Whether ``invoke`` generates by streaming, too, so that callbacks get its chunks."""
    stream_usage: bool = True
    """Whether the last chunk of a stream has the numbers of tokens."""
    tool_cache: bool = False
    """Whether the engine may answer calls whose results :func:`speculate` has when the model makes them.

    Such calls do not pass through the agent's graph: no node, interrupt or middleware sees them. They are
    ``server_tool_call`` and ``server_tool_result`` blocks of the message; the answer continues after them.
    With it the content of every message is a list of blocks, streamed or not.
    """

    def __init__(self, **fields: Any) -> None:
        """Check the fields, then open ``model`` unless a ``runtime`` is given; see the class for the others.

        Raises:
            ConfigurationError: a field is unknown or has a wrong value, or the given ``runtime`` is none or
                has another ``model`` open.
            AgentRTError: as :meth:`LocalRuntime.open` raises it.
        """
        for name, instead in FIELDS_OF_CHAT_OPENAI.items():
            if name in fields:
                raise ConfigurationError(f"ChatAgentRT has no {name}. {instead}")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise invalid_settings("ChatAgentRT", error) from None
        if self.runtime is None:
            self.runtime = named_runtimes.open_by_name(self.model)
        else:
            self.model = self._model_of_given_runtime()
        if self.profile is None:
            self.profile = self._resolve_model_profile()

    def _model_of_given_runtime(self) -> str:
        wanted = "what LocalRuntime.open() returns"
        check_setting("runtime", self.runtime, object if hasattr(self.runtime, "model_id") else (), wanted)
        opened, name = self.runtime.model_id, named_runtimes.name_of(self.runtime)
        if "model" not in self.model_fields_set:
            return name or opened
        if self.model not in (opened, name):
            raise ConfigurationError(
                f"the runtime has {opened!r} open, not {self.model!r}. Give only one of the two."
            )
        return self.model

    @field_validator("priority", mode="before")
    @classmethod
    def _check_priority(cls, given: Any) -> Any:
        if given is not None and given not in list(Priority):
            raise ValueError("give Priority.REACTIVE or Priority.PROACTIVE of agentrt")
        return given

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        """Check the values of the fields that are options of each request."""
        from agentrt.runtime import SamplingParams

        options = runtime_options(self._request_fields(), {})
        named = {name: value for name, value in options.items() if name in SamplingParams.__annotations__}
        SamplingParams(**{**named, "logit_bias": self.logit_bias or {}})
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name of the model and the other fields.

        Raises:
            ConfigurationError: the chat model was given a runtime, whose settings another process does not
                know.
        """
        name = named_runtimes.name_of(self.runtime)
        if name is None:
            raise ConfigurationError(
                f"a {type(self).__name__} that was given a runtime cannot be pickled. Give it the name or "
                "the path of its model instead: ChatAgentRT(model=...) opens it in each process."
            )
        fields = {field: getattr(self, field) for field in self.model_fields_set - {"runtime", "profile"}}
        return _unpickled, (type(self), {**fields, "model": name})

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a deep copy on the same runtime."""
        memo = {} if memo is None else memo
        memo[id(self.runtime)] = self.runtime
        return super().__deepcopy__(memo)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: ``langchain_core.load`` opens the model by its name."""
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return the path of the public module."""
        return ["agentrt", "adapters", "langchain"]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the model, the options that were given, and the runtime, which says whether it is open."""
        yield "model", self.model
        yield from ((name, getattr(self, name)) for name in _REQUEST_FIELDS if name in self.model_fields_set)
        yield "runtime", self.runtime

    @property
    def model_name(self) -> str:
        """Name of the open model, which is in the ``response_metadata`` of its answers."""
        name: str = self.runtime.model_id
        return name

    @property
    def _llm_type(self) -> str:
        return "agentrt"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        names = type(self).model_fields.keys() - BaseChatModel.model_fields.keys() - {"runtime"}
        return {name: getattr(self, name) for name in sorted(names)}

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        # LangChain's own is of a serialization that it keeps when fields change.
        settings = {**self._identifying_params, "output_version": self.output_version}
        key = {"type": self._llm_type, "settings": settings, "stop": stop, "options": kwargs}
        return json.dumps(key, sort_keys=True, default=_in_key)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        own = [self.stop] if isinstance(self.stop, str) else self.stop
        params = super()._get_ls_params(stop=own if stop is None else stop, **kwargs)
        return {**params, "ls_provider": "agentrt", "ls_model_name": kwargs.get("model", self.model_name)}

    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None], /) -> dict[str, Any]:
        usages = [output["token_usage"] for output in llm_outputs if output is not None]
        totals = {name: sum(usage[name] for usage in usages) for name in (usages[0] if usages else ())}
        return {"token_usage": totals, "model_name": self.model_name}

    def _resolve_model_profile(self) -> ModelProfile | None:
        # Without structured_output: create_agent would then hold the answer to a schema that the model is not
        # shown. As a tool it is.
        tools = self.runtime.call_format is not None
        text: ModelProfile = {"text_inputs": True, "text_outputs": True, "temperature": True}
        other: ModelProfile = {"image_inputs": False, "audio_inputs": False, "video_inputs": False}
        own: ModelProfile = {"max_input_tokens": self.runtime.context_length, "tool_calling": tools}
        return {**text, **other, **own, "tool_choice": tools}

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``, by the model's tokenizer."""
        if self.custom_get_token_ids is not None:
            return super().get_token_ids(text)
        ids: list[int] = self.runtime.token_ids(text)
        return ids

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[ToolLike] | None = None
    ) -> int:
        """Return the number of tokens of the prompt of ``messages`` and ``tools``, as an answer counts it.

        Of messages that the model does not take, such as a part of a conversation, it is an upper bound.
        """
        if self.custom_get_token_ids is not None:
            return super().get_num_tokens_from_messages(list(messages), tools)
        return count_message_tokens(
            self.runtime, messages, [convert_to_openai_tool(tool) for tool in tools or ()]
        )

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: dict[str, Any] | type | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools to the model.

        ``tool_choice`` is ``"auto"`` or ``"none"``; ``"any"``, ``"required"`` or True for at least one call;
        or a tool's name, or OpenAI's object, for a call of that tool. Arguments are held to the schemas of
        the tools in any case; with ``strict`` each argument is required. ``response_format`` is a schema for
        an answer that calls no tool.

        Raises:
            ConfigurationError: ``strict`` is True, and the runtime does not hold calls to schemas.
            ValueError: LangChain cannot convert a tool or the schema.
        """
        if strict and not self.runtime.config.constrain_tool_calls:
            raise ConfigurationError(
                "strict=True needs calls that are held to their schemas. Open the runtime with "
                "constrain_tool_calls=True, or leave out strict."
            )
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        if response_format is not None:
            kwargs["response_format"] = response_format_of(response_format, strict=strict)
        converted = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        return self.bind(tools=converted, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type | None = None,
        *,
        method: Method = "function_calling",
        include_raw: bool = False,
        strict: bool | None = None,
        tools: Sequence[ToolLike] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model such that it returns values of ``schema``: of a Pydantic class, its instances.

        ``method`` is ``"function_calling"``, by which the model is shown the schema as a tool that it must
        call; ``"json_schema"``, by which its answer is held to the schema; or ``"json_mode"``, by which it is
        held to any JSON object. The last two do not show the model the schema: describe it in the prompt.
        ``tools`` are further tools that the model is shown, and may call except by ``"function_calling"``.
        With ``include_raw`` the result is a dict of the message (``raw``), the value (``parsed``) and the
        error (``parsing_error``).

        Raises:
            ConfigurationError: there is no such method, it needs a schema, or it does not take ``strict``.
            ValueError: LangChain cannot convert the schema.
        """
        how: Any = {"method": method, "include_raw": include_raw, "strict": strict}
        return structured_output(self, schema, tools=tools or (), options=kwargs, **how)

    def _generate(
        self, messages: list[BaseMessage], stop: Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with langchain_errors():
            request, format = self._request(messages, stop, kwargs)
            answers = self._answers(run_manager)
            if self.tool_cache:
                return chat_result_in_blocks(answers.stream(request), format)
            return chat_result(answers.generate(request), format)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with langchain_errors():
            request, format = self._request(messages, stop, kwargs)
            answers = self._answers(run_manager)
            if self.tool_cache:
                events = [event async for event in answers.astream(request)]
                return chat_result_in_blocks(events, format)
            return chat_result(await answers.agenerate(request), format)

    def _stream(
        self, messages: list[BaseMessage], stop: Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        with langchain_errors():
            request, format = self._request(messages, stop, kwargs, streamed=True)
            converter = ChunkConverter(format)
            with closing(self._answers(run_manager).stream(request)) as events:
                for event in events:
                    yield from converter.chunks(event)

    async def _astream(
        self, messages: list[BaseMessage], stop: Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        with langchain_errors():
            request, format = self._request(messages, stop, kwargs, streamed=True)
            converter = ChunkConverter(format)
            async with aclosing(self._answers(run_manager).astream(request)) as events:
                async for event in events:
                    for chunk in converter.chunks(event):
                        yield chunk

    def _streaming_disabled(self, **kwargs: Any) -> bool:
        # A callback that wants chunks must not make several answers one.
        several = (kwargs.get("n") or self.n) != 1 and not kwargs.get("stream")
        return several or super()._streaming_disabled(**kwargs)

    def _answers(self, run_manager: Any) -> RuntimeAnswers:
        source = current_result_source() if self.tool_cache or self.runtime.drafts else None
        return RuntimeAnswers(self.runtime, self.max_retries, run_manager, source, self.tool_cache)

    def _request_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _REQUEST_FIELDS}

    def request_of(self, messages: Sequence[BaseMessage], given: Mapping[str, Any]) -> GenerationRequest:
        """Return the request to the runtime; options in ``given`` take precedence over the fields.

        Raises:
            InvalidRequestError: an option does not exist, or cannot be converted.
        """
        options = dict(given)
        wanted = options.pop("model", self.model)
        if wanted not in (self.model, self.model_name):
            raise InvalidRequestError(
                "model",
                f"this chat model has {self.model!r} open, not {wanted!r:.80}. Make a ChatAgentRT with the "
                "other one.",
            )
        return generation_request(messages, self._request_fields(), options)

    def _request(
        self, messages: Sequence[BaseMessage], stop: Stop, given: Mapping[str, Any], *, streamed: bool = False
    ) -> tuple[GenerationRequest, AnswerFormat]:
        request = self.request_of(messages, given if stop is None else {**given, "stop": stop})
        if streamed:
            request.check_single("Use generate() or agenerate(), which return all, or n=1.")
        elif self.tool_cache:
            request.check_single("Set tool_cache=False, or n=1.")
        return request, AnswerFormat(self.runtime, self.tool_cache, request.stream_usage)


def _unpickled(kind: type[ChatAgentRT], fields: dict[str, Any]) -> ChatAgentRT:
    model = kind(**fields)
    named_runtimes.keep(model.runtime)
    return model


def _in_key(value: Any) -> Any:
    """Return what stands for ``value`` in the key of a cached answer; two classes may have one name."""
    return response_format_of(value) if isinstance(value, type) else repr(value)


PROVIDER: Final = "agentrt"


def init_chat_model(model: str | None = None, *, model_provider: str | None = None, **fields: Any) -> Any:
    """Return the chat model that a text such as ``"agentrt:nano"`` or ``"openai:gpt-5.5"`` names.

    ``"agentrt:NAME"``, or ``model_provider="agentrt"``, is ``ChatAgentRT(model=NAME, **fields)``; everything
    else is LangChain's own ``init_chat_model``, whose list of providers is closed. So give agents the model,
    not its name: ``create_agent(init_chat_model("agentrt:nano"), tools)``.

    Raises:
        ConfigurationError: ``model`` is no text, or ``configurable_fields`` or ``config_prefix`` is given for
            a model of this provider.
        AgentRTError: as :class:`ChatAgentRT` raises it.
        ValueError, ImportError: as LangChain's function raises them.
    """
    check_setting("model", model, (str, type(None)), 'a name such as "agentrt:nano"')
    prefix, _, name = (model or "").partition(":")
    if model_provider is None and prefix == PROVIDER and model != PROVIDER:
        model, model_provider = name, prefix
    if model is None or model_provider != PROVIDER:
        try:
            from langchain.chat_models import init_chat_model as init
        except ModuleNotFoundError as error:
            raise MissingExtraError("langchain", "langgraph") from error
        return init(model, model_provider=model_provider, **fields)
    if fields.pop("configurable_fields", None) or fields.pop("config_prefix", None):
        raise ConfigurationError(
            "configurable_fields and config_prefix are for LangChain's own providers. Use "
            "ChatAgentRT(...).configurable_fields(temperature=ConfigurableField('temperature'))."
        )
    return ChatAgentRT(model=model, **fields)
