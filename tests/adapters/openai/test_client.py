"""`speculate` on the OpenAI client. What it has in common with other clients is tested beside them."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.adapters.openai import report_of, speculate
from agentrt.testing import ScriptedSpeculator
from tests.adapters.openai.doubles import TOOLS, Endpoint
from tests.adapters.stainless.doubles import HI, look_tool

pytestmark = pytest.mark.usefixtures("prediction_is_free")


def test_nothing_is_predicted_where_no_tool_can_be_called() -> None:
    predictor = ScriptedSpeculator()
    with Endpoint([]).client() as plain:
        client = speculate(plain, predictor, tools=[look_tool(1)])
        options: Any = {"model": "m", "messages": [HI]}
        client.chat.completions.create(**options)
        client.chat.completions.create(**options, tools=TOOLS, tool_choice="none")
        assert report_of(client).turns == ()
    assert predictor.requests == []
