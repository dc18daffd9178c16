"""The running ``agentrt serve`` of this user, if it has the model of a chat."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ...errors import ModelError
from ...own_files import OwnFileError
from ..running_server import running_server, tokens_of
from .first_model import NANO

if TYPE_CHECKING:
    from agentrt.examples.chat.served import ServedChat, ServedModel

_ANSWERS_S: Final = 2.0
"""Seconds in which a server that is there answers."""


def find_served(model: str) -> ServedModel | None:
    """Return ``model``, a name or a path, as the running server has it; None if none has it.

    It is the same file or folder; a name that is none here is one of the server's names.
    """
    path = _path_of(model)
    try:
        if (server := running_server()) is None:
            return None
        # Imported here, with all of LangChain: a chat that finds no server opens its model first.
        from agentrt.examples.chat.served import ServedModel

        for each in server["models"]:
            if each["path"] == path if path else model in each["names"]:
                token, *_ = tokens_of(server).values()
                return ServedModel(
                    name=each["names"][0],
                    is_nano=each["path"] == _path_of(NANO),
                    address=server["address"],
                    token=token,
                )
    except (ValueError, LookupError, TypeError, OwnFileError):  # it is of another version, or a token is gone
        return None
    return None


async def open_served(model: str) -> ServedChat | None:
    """Return the chat model of the running server that is ``model``; None if none has it, or it is silent.

    A model that the server has not loaded is loaded.
    """
    found = find_served(model)
    if found is None or find_spec("httpx") is None:
        return None
    import httpx

    from agentrt.examples.chat.served import ServedChat

    try:
        async with found.client() as client:
            async with asyncio.timeout(_ANSWERS_S):
                (await client.get("/v1/models")).raise_for_status()
            response = await client.post("/tokenize", json={"model": found.name, "prompt": "Hello"})
            length = response.raise_for_status().json()["max_model_len"]
    except (httpx.HTTPError, TimeoutError):
        return None
    model_id = NANO if found.is_nano else found.name
    return ServedChat(
        model=model, model_id=model_id, address=found.address, context_length=length, find=find_served
    )


def _path_of(model: str) -> str | None:
    from agentrt.runtime.model.directory import find_model

    try:
        return str(find_model(model).resolve())
    except ModelError:
        return None
