"""Dialects by name, and by what endpoints show of themselves."""

from __future__ import annotations

from typing import Final

from ..errors import ConfigurationError
from .agentrt_server import AgentRTServer
from .dialect import Dialect, Evidence
from .dynamo import Dynamo
from .litellm import LiteLLM
from .llm_d import LlmD
from .service_tier import ServiceTier
from .sglang import SGLang
from .vllm import VLLM

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
