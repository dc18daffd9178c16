"""Each format reads the calls that it writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.calls import ToolCall, ToolCallFormat, find_tool_call_format, parse_tool_calls, tool_call_formats
from agentrt.calls.arguments import plain_text
from agentrt.calls.registry import BUILT_IN_FORMATS
from tests.agentrt.calls.installed import ACME, InstallFormat

from .writers import write_message

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["\\b", "\\\\f", "\b\f\0", "'\"", "(]", "None"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
PLAIN = [
    ToolCall("look", {}),
    ToolCall("look", {"query": "a roof", "limit": 3, "deep": True, "ratio": 0.5, "tags": ["x", "y"]}),
    ToolCall("look", {"where": {"city": "Čačak", "near": None}}),
]
ANY_TEXT = ("hermes", "llama3_json", "pythonic", "xlam", "mistral", "phi4_mini", "lfm2", "kimi_k2", "acme")
"""Formats in which any text can be an argument; in the others some texts end a value."""


def read(format: ToolCallFormat, written: str | None) -> tuple[str, tuple[ToolCall, ...]]:
    assert written is not None
    text, calls = parse_tool_calls(written, format)
    return text.strip(), calls


def as_read(format: ToolCallFormat, call: ToolCall) -> ToolCall:
    if not format.untyped_arguments:
        return call
    return ToolCall(call.name, {name: plain_text(value) for name, value in call.arguments.items()})


@pytest.mark.parametrize("format", BUILT_IN_FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize("call", PLAIN)
def test_a_format_reads_what_it_writes(format: ToolCallFormat, call: ToolCall) -> None:
    assert read(format, format.written(call)) == ("", (as_read(format, call),))


@pytest.mark.parametrize("format", BUILT_IN_FORMATS, ids=lambda format: format.name)
def test_it_writes_the_same_call_as_models_do(format: ToolCallFormat) -> None:
    call = ToolCall("look", {"query": "a roof"})
    ours, theirs = (read(format, text) for text in (format.written(call), write_message([call], format)))
    assert ours == theirs


@pytest.mark.parametrize("name", ANY_TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tool=NAMES, arguments=st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_arguments_are_read_as_they_were_written(
    install_format: InstallFormat, name: str, tool: str, arguments: dict[str, Any]
) -> None:
    if name == "acme" and name not in {format.name for format in tool_call_formats()}:
        install_format(ACME)
    format = find_tool_call_format(name)
    call = ToolCall(tool, arguments)
    assert read(format, format.written(call)) == ("", (call,))


@pytest.mark.parametrize("call", [ToolCall("9 lives", {}), ToolCall("look", {"max-depth": 1})])
@pytest.mark.parametrize("name", ["pythonic", "lfm2"])
def test_python_has_no_way_to_write_some_names(name: str, call: ToolCall) -> None:
    assert find_tool_call_format(name).written(call) is None
