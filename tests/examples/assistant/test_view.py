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


def test_no_control_character_of_a_model_or_a_tool_is_left() -> None:
    escapes = "\x1b]0;title\x07\x1b[2J\x9b31mred\u202eknil"
    shown = "\u241b]0;title\u2407\u241b[2J\\x9b31mred\\u202eknil"
    assert describe(ToolMessage(escapes, tool_call_id="c1")) == [f"= {shown}"]
    assert describe(AIMessage(escapes)) == [shown]
    (line,) = describe(
        AIMessage("", tool_calls=[{"name": "read\x1b[2J", "args": {"id": escapes}, "id": "c"}])
    )
    assert line.isprintable()
    assert describe(ToolMessage("a\n> b", tool_call_id="c1")) == ["= a > b"]
