"""The dialects of engines and gateways, by name and by what endpoints show of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ..errors import ConfigurationError
from ..priority import PRIORITY_HEADER, Priority
from .dialect import CHAT_COMPLETIONS, Dialect, Evidence, PriorityFields


class _Engine:
    """What most dialects have: ``priority`` in the body, lower first, for requests that have one."""

    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return what a request of this priority carries: the priority's own value."""
        return PriorityFields({"priority": int(priority)})

    def recognises(self, evidence: Evidence) -> bool:
        """Whether an answer shows that its endpoint takes this dialect: none does."""
        return False


@dataclass(frozen=True)
class AgentRTServer(_Engine):
    """agentrt's own server. A request without the field is reactive."""

    name: ClassVar[str] = "agentrt"

    def recognises(self, evidence: Evidence) -> bool:
        """By the header with the priority of the request in its answers, or ``owned_by`` of its model."""
        return PRIORITY_HEADER in evidence.headers or "agentrt" in evidence.owners


@dataclass(frozen=True)
class VLLM(_Engine):
    """vLLM's server with ``--scheduling-policy priority``.

    A request without the field has priority 0, that of reactive requests. Without the policy, engine V0
    refuses every other value with a 400, and engine V1 ignores it.
    """

    name: ClassVar[str] = "vllm"

    def recognises(self, evidence: Evidence) -> bool:
        """By ``owned_by`` of its models, or ``kv_transfer_params``, which its whole answers have."""
        return "vllm" in evidence.owners or evidence.names("kv_transfer_params")


@dataclass(frozen=True)
class LiteLLM(_Engine):
    """LiteLLM's proxy, which queues requests that have a priority; it passes others on without its queue."""

    name: ClassVar[str] = "litellm"

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the priority's own value; nothing for responses, which its queue does not take."""
        return super().fields(priority, path, session) if path == CHAT_COMPLETIONS else PriorityFields()

    def recognises(self, evidence: Evidence) -> bool:
        """By the headers ``x-litellm-…`` of its answers."""
        return any(name.startswith("x-litellm-") for name in evidence.headers)


@dataclass(frozen=True)
class SGLang(_Engine):
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
class Dynamo(_Engine):
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
class LlmD(_Engine):
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
class ServiceTier(_Engine):
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
