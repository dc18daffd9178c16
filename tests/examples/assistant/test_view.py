from langchain_core.messages import AIMessage, ToolMessage

from agentrt.examples.assistant.view import describe

CALL = AIMessage("", tool_calls=[{"name": "search_notes", "args": {"query": "[bold]x", "n": 3}, "id": "c1"}])
RESULT = ToolMessage('[{"id": "n1"}]', tool_call_id="c1")
ANSWER = AIMessage("All is well.")


def test_a_message_in_short() -> None:
    assert describe(CALL) == ['* search_notes(query="[bold]x", n=3)']
    assert describe(RESULT) == ['= [{"id": "n1"}]']
    assert describe(ANSWER) == ["All is well."]
    assert describe(AIMessage("Let me see.", tool_calls=CALL.tool_calls)) == [*describe(CALL), "Let me see."]
    assert len(describe(ToolMessage("x" * 1000, tool_call_id="c1"))[0]) < 100
