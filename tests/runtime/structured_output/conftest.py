from __future__ import annotations

import pytest

from agentrt.calls import ToolCallFormat
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output.manager import StructuredOutputManager


@pytest.fixture(scope="module")
def manager(tokenizer: Tokenizer) -> StructuredOutputManager:
    return StructuredOutputManager(ToolCallFormat.HERMES, tokenizer.token_bytes, tokenizer.end_token_ids)
