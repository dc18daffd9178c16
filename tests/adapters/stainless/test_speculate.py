"""What `speculate` takes, and what it makes of a client that speculates already: of each library."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from agentrt.adapters import anthropic, openai
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator
from tests.adapters.anthropic.doubles import Endpoint as AnthropicEndpoint
from tests.adapters.anthropic.doubles import sync_results as message_results
from tests.adapters.openai.doubles import Endpoint as OpenAIEndpoint
from tests.adapters.openai.loops import sync_results as chat_results
from tests.adapters.stainless.doubles import look_tool
from tests.patience import until

pytestmark = pytest.mark.usefixtures("prediction_is_free")

LIBRARIES = pytest.mark.parametrize(
    ("adapter", "endpoint"), [(anthropic, AnthropicEndpoint), (openai, OpenAIEndpoint)]
)


@LIBRARIES
def test_without_tools_there_is_nothing_to_speculate_on(adapter: Any, endpoint: Any) -> None:
    with (
        endpoint([]).client() as plain,
        pytest.raises(ConfigurationError, match="at least one tool"),
    ):
        adapter.speculate(plain, ScriptedSpeculator(), tools=[])


@LIBRARIES
def test_a_wrong_tool_cache_is_named(adapter: Any, endpoint: Any) -> None:
    with endpoint([]).client() as plain, pytest.raises(ConfigurationError, match="tool_cache is 'yes'"):
        adapter.speculate(plain, ScriptedSpeculator(), tools=[look_tool(0)], tool_cache="yes")


@LIBRARIES
def test_a_client_that_speculates_gets_other_predictors_and_a_report_of_its_own(
    adapter: ModuleType, endpoint: Any
) -> None:
    first, second = ScriptedSpeculator(), ScriptedSpeculator()
    with endpoint([], gate=lambda turn: until(lambda: second.requests)).client() as plain:
        once = adapter.speculate(plain, first, tools=[look_tool(0)])
        twice = adapter.speculate(once, second, tools=[look_tool(0)])
        if adapter is anthropic:
            message_results(twice, False, 1)
        else:
            chat_results(twice, "chat", False, 1)
        assert [len(adapter.report_of(client).turns) for client in (once, twice)] == [0, 1]
    assert first.requests == []
