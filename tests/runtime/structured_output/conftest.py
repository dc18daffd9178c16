from __future__ import annotations

from typing import Any

import pytest

from agentrt.calls import ToolCallFormat
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output.manager import StructuredOutputManager


def tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool("search", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
    tool("set.light", {"state": {"enum": ["on", "off"]}}, ["state"]),
]


@pytest.fixture(scope="module")
def manager(tokenizer: Tokenizer) -> StructuredOutputManager:
    return StructuredOutputManager(ToolCallFormat.HERMES, tokenizer.token_bytes, tokenizer.end_token_ids)
