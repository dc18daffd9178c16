"""What `speculate` adds to a model that is a ``ChatOpenAI``: priorities on the wire, and the tool cache."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from agentrt.dialects import Dialect, EndpointDialect
from agentrt.errors import ConfigurationError

if TYPE_CHECKING:
    from langchain_openai.chat_models.base import BaseChatOpenAI

    from ...openai.tool_cache import ToolCacheEndpoint


@dataclass(frozen=True)
class OpenAIPart:
    """The part of a speculating model that only a ``ChatOpenAI`` has; empty for other models."""

    mixins: tuple[type, ...] = ()
    """Mixins of the model's class."""
    clients: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model: its OpenAI clients, which send priorities."""
    tool_cache: ToolCacheEndpoint | None = None


def find_openai_part(
    model: BaseChatModel, *, tool_cache: object, dialect: Dialect | str | None
) -> OpenAIPart:
    """Return the part for ``model``.

    Raises:
        ConfigurationError: a setting cannot be used, or is set and the model is no ``ChatOpenAI``.
    """
    if not _is_chat_openai(model):
        for name, setting in (("tool_cache", tool_cache), ("dialect", dialect)):
            if setting:
                raise ConfigurationError(
                    f"speculate({name}={setting!r}) is for ChatOpenAI, not {type(model).__name__}. Leave it "
                    "out; ChatAgentRT needs no dialect, and has its own tool_cache."
                )
        return OpenAIPart()
    from ...openai.tool_cache import ToolCacheEndpoint
    from .chat_openai import ToolCacheChatOpenAI

    cache = ToolCacheEndpoint.if_wanted(tool_cache)
    endpoint = EndpointDialect(dialect)
    mixins = () if cache is None else (ToolCacheChatOpenAI,)
    return OpenAIPart(mixins, _prioritized_clients(model, endpoint), cache)  # type: ignore[arg-type]


def _is_chat_openai(model: BaseChatModel) -> bool:
    """Whether the model is a ``ChatOpenAI``; its module is not imported for one that is not."""
    module = sys.modules.get("langchain_openai.chat_models.base")
    return module is not None and isinstance(model, module.BaseChatOpenAI)


def _prioritized_clients(model: BaseChatOpenAI, endpoint: EndpointDialect) -> dict[str, Any]:
    """Return copies of the model's clients that send priorities, by the names of its fields."""
    import openai

    from ...openai.client_class import prioritized_copy

    clients: dict[str, Any] = {}
    for root, resource in (("root_client", "client"), ("root_async_client", "async_client")):
        client: Any = getattr(model, root)
        if isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
            clients[root] = prioritized_copy(client, endpoint)  # type: ignore[type-var]
            clients[resource] = clients[root].chat.completions
    return clients
