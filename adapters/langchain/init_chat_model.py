"""`init_chat_model` of LangChain, which also knows the provider ``agentrt``."""

from __future__ import annotations

from typing import Any, Final

from agentrt.argument_checks import check_setting
from agentrt.errors import ConfigurationError, MissingExtraError

from .chat_model import ChatAgentRT

PROVIDER: Final = "agentrt"


def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Any = None,
    config_prefix: str | None = None,
    **fields: Any,
) -> Any:
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
    name = _own_name(model, model_provider)
    if name is None:
        try:
            from langchain.chat_models import init_chat_model as init
        except ModuleNotFoundError as error:
            raise MissingExtraError("langchain", "langgraph") from error
        return init(
            model,
            model_provider=model_provider,
            configurable_fields=configurable_fields,
            config_prefix=config_prefix,
            **fields,
        )
    if configurable_fields or config_prefix:
        raise ConfigurationError(
            "configurable_fields and config_prefix are for LangChain's own providers. Use "
            "ChatAgentRT(...).configurable_fields(temperature=ConfigurableField('temperature'))."
        )
    return ChatAgentRT(model=name, **fields)


def _own_name(model: str | None, provider: str | None) -> str | None:
    """Return the name of a model of agentrt; None for other providers."""
    if model is None or provider is not None:
        return model if provider == PROVIDER else None
    prefix, separator, name = model.partition(":")
    return name if separator and prefix == PROVIDER else None
