"""Dialects: the fields and headers by which engines and gateways take what a request says of itself.

That is its priority, and for how long its tools usually run. Evidence shows which dialect an endpoint takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from ..errors import ConfigurationError
from ..priority import PRIORITY_HEADER, Priority

CHAT_COMPLETIONS = "/chat/completions"
RESPONSES = "/responses"
MODEL_PATHS = frozenset({CHAT_COMPLETIONS, RESPONSES})
"""The paths, below the base URL, of the requests that have a priority."""
MESSAGES = "/v1/messages"
"""The path of Anthropic's form, in which only :class:`AgentRTServer` takes a priority."""
TOOL_SECONDS = "tool_seconds"
"""The field of agentrt's own server with the seconds of tools by name, and the capability to take it."""


@dataclass(frozen=True, slots=True)
class PriorityFields:
    """What a dialect adds to a request: fields of its JSON body, and headers in lower case."""

    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an endpoint has shown of itself in one answer: the headers, and the body if it is a JSON object.

    The names of ``headers`` are in lower case. ``body`` is None for a stream.
    """

    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None

    @property
    def capabilities(self) -> set[Any] | None:
        """The ``capabilities`` of the models that the body lists; None if it lists none with any."""
        listed = [model["capabilities"] for model in self._objects("data") if "capabilities" in model]
        return {each for named in listed if isinstance(named, list) for each in named} if listed else None

    @property
    def owners(self) -> set[Any]:
        """The ``owned_by`` of the models that the body lists."""
        return {model.get("owned_by") for model in self._objects("data")}

    def names(self, field: str) -> bool:
        """Whether the body, or a choice in it, has this field."""
        return field in (self.body or ()) or any(field in choice for choice in self._objects("choices"))

    def _objects(self, name: str) -> list[Mapping[str, Any]]:
        items = (self.body or {}).get(name)
        return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@runtime_checkable
class Dialect(Protocol):
    """How one kind of endpoint takes a request's priority.

    By default as most engines do: ``priority`` in the body, lower first, of requests that have one.
    """

    name: ClassVar[str]
    """The name for ``dialect=``."""

    marks_every_request: ClassVar[bool] = False
    """Whether requests outside :func:`agentrt.priority` are marked as reactive, once one was inside.

    True where the endpoint serves a request without a priority last, or as one of the lowest.
    """

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return what a request of this priority carries.

        ``path`` is one of :data:`MODEL_PATHS`. ``session`` identifies the run that the request belongs to,
        if that is known, and reveals nothing of it.
        """
        return PriorityFields({"priority": int(priority)})

    def hints(
        self, tool_seconds: Mapping[str, float], capabilities: Collection[Any] | None
    ) -> Mapping[str, Any]:
        """Return the fields of the body that say for how many seconds tools of the request usually run.

        ``tool_seconds`` has those whose time is known. ``capabilities`` are those of the endpoint's models;
        None if its list of models was not seen. By default there are none: most engines take no such thing.
        """
        return {}

    def recognises(self, evidence: Evidence) -> bool:
        """Whether an answer shows that its endpoint takes this dialect. False if no answer ever does."""
        return False


@dataclass(frozen=True)
class AgentRTServer(Dialect):
    """agentrt's own server. A request without the field is reactive."""

    name: ClassVar[str] = "agentrt"

    def hints(
        self, tool_seconds: Mapping[str, float], capabilities: Collection[Any] | None
    ) -> Mapping[str, Any]:
        """Return ``tool_seconds``; nothing if the models are listed without that capability."""
        return {TOOL_SECONDS: tool_seconds} if capabilities is None or TOOL_SECONDS in capabilities else {}

    def recognises(self, evidence: Evidence) -> bool:
        """By the header with the priority of the request in its answers, or ``owned_by`` of its model."""
        return PRIORITY_HEADER in evidence.headers or "agentrt" in evidence.owners


@dataclass(frozen=True)
class VLLM(Dialect):
    """vLLM's server with ``--scheduling-policy priority``.

    A request without the field has priority 0, that of reactive requests. Without the policy, engine V0
    refuses every other value with a 400, and engine V1 ignores it.
    """

    name: ClassVar[str] = "vllm"

    def recognises(self, evidence: Evidence) -> bool:
        """By ``owned_by`` of its models, or ``kv_transfer_params``, which its whole answers have."""
        return "vllm" in evidence.owners or evidence.names("kv_transfer_params")


@dataclass(frozen=True)
class LiteLLM(Dialect):
    """LiteLLM's proxy, which queues requests that have a priority; it passes others on without its queue."""

    name: ClassVar[str] = "litellm"

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the priority's own value; nothing for responses, which its queue does not take."""
        return super().fields(priority, path, session) if path == CHAT_COMPLETIONS else PriorityFields()

    def recognises(self, evidence: Evidence) -> bool:
        """By the headers ``x-litellm-…`` of its answers."""
        return any(name.startswith("x-litellm-") for name in evidence.headers)


@dataclass(frozen=True)
class SGLang(Dialect):
    """SGLang's server with ``--enable-priority-scheduling``: higher values first.

    It serves requests without the field last, so reactive ones are marked as well. A running request is
    preempted for one that is ahead by more than ``--priority-scheduling-preemption-threshold``, which is 10
    by default.
    """

    low_values_first: bool = False
    """Whether the server runs with ``--schedule-low-priority-values-first``."""

    name: ClassVar[str] = "sglang"
    marks_every_request: ClassVar[bool] = True

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return 0 for reactive requests and 100 behind it for proactive ones."""
        distance = 0 if priority is Priority.REACTIVE else 100
        return PriorityFields({"priority": distance if self.low_values_first else -distance})

    def recognises(self, evidence: Evidence) -> bool:
        """By ``owned_by`` of its models, or ``matched_stop``, which every choice of its whole answers has."""
        return "sglang" in evidence.owners or evidence.names("matched_stop")


@dataclass(frozen=True)
class Dynamo(Dialect):
    """NVIDIA Dynamo's frontend, which turns the value into that of the engine behind it: higher first.

    The router counts a value as seconds by which the request came earlier. It takes a negative one for 0, so
    reactive requests are moved forward and proactive ones stay. No answer shows that it comes from Dynamo, so
    this dialect has to be named.
    """

    name: ClassVar[str] = "dynamo"
    marks_every_request: ClassVar[bool] = True

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the hint, and ``x-dynamo-session-id`` with the session."""
        hint = 100 if priority is Priority.REACTIVE else 0
        headers = {} if session is None else {"x-dynamo-session-id": session}
        return PriorityFields({"nvext": {"agent_hints": {"priority": hint}}}, headers)


@dataclass(frozen=True)
class LlmD(Dialect):
    """llm-d's endpoint picker with flow control: an ``InferenceObjective`` and a fairness id in headers.

    The objectives are resources of the cluster: their names and priorities are the operator's, so this
    dialect has to be named. A request without a known objective has priority 0. Requests with equal
    ``fairness_id`` share capacity; None sends none, and the picker counts them as one flow.
    """

    reactive: str | None = "reactive"
    proactive: str | None = "proactive"
    fairness_id: str | None = None
    header_prefix: str = "x-llm-d-inference-"
    """``x-gateway-inference-`` before llm-d 0.8, and for the Gateway API's own endpoint picker."""

    name: ClassVar[str] = "llm-d"

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the headers."""
        objective = self.reactive if priority is Priority.REACTIVE else self.proactive
        given = {"objective": objective, "fairness-id": self.fairness_id}
        headers = {self.header_prefix + name: value for name, value in given.items() if value is not None}
        return PriorityFields(headers=headers)


@dataclass(frozen=True)
class ServiceTier(Dialect):
    """``service_tier`` of OpenAI and of providers that copied it.

    It is ``priority`` for reactive requests, which costs more, and ``flex`` for proactive ones. Only requests
    inside :func:`agentrt.priority` have a tier. Because it bills, it is used only by name.
    """

    name: ClassVar[str] = "service_tier"

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the tier."""
        return PriorityFields({"service_tier": priority.service_tier})


DIALECTS: Final[tuple[Dialect, ...]] = (
    LiteLLM(),  # before the engines: a proxy passes their fields on
    AgentRTServer(),
    SGLang(),
    VLLM(),
    Dynamo(),
    LlmD(),
    ServiceTier(),
)
"""One of each, in the order in which they are recognised."""


def find_dialect(given: Dialect | str) -> Dialect:
    """Return the dialect of this name, with its defaults; a dialect is returned as it is.

    Raises:
        ConfigurationError: it is neither a dialect nor the name of one.
    """
    if isinstance(given, Dialect) and not isinstance(given, type):
        return given
    for dialect in DIALECTS:
        if dialect.name == given:
            return dialect
    known = ", ".join(sorted(dialect.name for dialect in DIALECTS))
    raise ConfigurationError(f"there is no dialect {given!r}. Use one of {known}, or a Dialect of your own.")


def recognise(evidence: Evidence) -> Dialect | None:
    """Return the dialect of the endpoint that has given this answer; None if it does not show."""
    return next((dialect for dialect in DIALECTS if dialect.recognises(evidence)), None)
