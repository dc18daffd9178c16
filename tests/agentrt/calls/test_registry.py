"""Formats: which a model has, built in or installed, and that each reads the calls that it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.calls import (
    JsonCallScanner,
    ToolCall,
    ToolCallFormat,
    detect_tool_call_format,
    find_tool_call_format,
    parse_tool_calls,
    tool_call_formats,
)
from agentrt.calls.arguments import plain_text
from agentrt.calls.format import CallShape
from agentrt.calls.registry import BUILT_IN_FORMATS
from agentrt.errors import ConfigurationError
from agentrt.runtime.nano import MODEL_DIRECTORY
from tests.agentrt.calls.installed import ACME, InstallFormat
from tests.house.project import ROOT

from .writers import write_message

LLAMA_JSON = (
    "{%- if tools %}Respond in the format "
    '{"name": function name, "parameters": dictionary of argument name and its value}.{% endif %}'
)
LLAMA_PYTHONIC = (
    "{%- if tools %}[func_name1(params_name1=params_value1, params_name2=params_value2...)]{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "model_id", "expected"),
    [
        ("{{ messages }}", "base", None),
        ("{% if tools %}<tool_call>{% endif %}", "Qwen2.5-1.5B-Instruct", ToolCallFormat.HERMES),
        (LLAMA_JSON, "Llama-3.2-3B-Instruct", ToolCallFormat.LLAMA3_JSON),
        (LLAMA_PYTHONIC, "Llama-4", ToolCallFormat.PYTHONIC),
        ("{% if tools %}<tool_call>{% endif %}", "xLAM-2-1b-fc-r", ToolCallFormat.XLAM),
        ("{% if tools %}…{% endif %}", "other", ToolCallFormat.HERMES),
    ],
)
def test_detection(template: str, model_id: str, expected: ToolCallFormat | None) -> None:
    assert detect_tool_call_format(template, model_id) is expected


def test_the_nano_model_writes_hermes_calls() -> None:
    template = (MODEL_DIRECTORY / "chat_template.jinja").read_text(encoding="utf-8")
    assert detect_tool_call_format(template, "nano") is ToolCallFormat.HERMES


def test_formats_are_found_by_name() -> None:
    for format in BUILT_IN_FORMATS:
        assert find_tool_call_format(format.name) is format
        assert getattr(ToolCallFormat, format.name.upper()) is format
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert parse_tool_calls(text, "hermes") == ("", (ToolCall("f", {}),))


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"'hermess'.*hermes, json_message, .*llama3_json, .*xlam"):
        find_tool_call_format("hermess")


def test_what_a_shape_writes_its_scanner_reads() -> None:
    for format in BUILT_IN_FORMATS:
        if format.shape is not None:
            text = f'{format.opening_tag}{format.shape.head("f.g")}{{"x": 1}}{format.shape.tail}'
            assert parse_tool_calls(text, format) == ("", (ToolCall("f.g", {"x": 1}),))


@pytest.mark.parametrize(
    "opening",
    [{}, {"opening_tag": ""}, {"message_opening": "[", "shape": CallShape(str, "")}],
    ids=["none", "empty", "no tag for a shape"],
)
def test_a_format_whose_calls_cannot_be_found_is_refused(opening: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="opening_tag"):
        ToolCallFormat(name="odd", scanner=JsonCallScanner, **opening)  # type: ignore[arg-type]


def test_an_installed_format_is_found_detected_and_parsed(install_format: InstallFormat) -> None:
    install_format(ACME)
    found = find_tool_call_format("acme")
    assert tool_call_formats() == (found, *BUILT_IN_FORMATS)
    # Before the built-in formats, whose marks its template may also contain.
    assert detect_tool_call_format("{{ tools }}<tools><tool_call>", "other") is found
    assert detect_tool_call_format("{{ tools }}<tool_call>", "Acme-7B") is found
    assert detect_tool_call_format("{{ tools }}<tool_call>", "other") is ToolCallFormat.HERMES
    text = 'Now.<tools>{"name": "f", "arguments": {"x": 1}}</tools>'
    assert parse_tool_calls(text, "acme") == ("Now.", (ToolCall("f", {"x": 1}),))


@pytest.mark.parametrize(
    ("entry_point", "source", "reason"),
    [
        ("acme = acme_agentrt:ACME", "import no_such_module", "ModuleNotFoundError: .*no_such_module"),
        ("acme = acme_agentrt:ACME", "", "AttributeError"),
        ("acme = acme_agentrt:ACME", "ACME = 'acme'", "not a ToolCallFormat of this name"),
        ("{acme} = acme_agentrt:ACME", "", "AttributeError"),
        ("acne = acme_agentrt:ACME", ACME, "not a ToolCallFormat of this name"),
        ("hermes = acme_agentrt:ACME", ACME.replace('"acme"', '"hermes"'), "the name is taken"),
    ],
)
def test_a_broken_installed_format_is_a_clear_error(
    install_format: InstallFormat, entry_point: str, source: str, reason: str
) -> None:
    install_format(source, entry_point)
    assert find_tool_call_format("hermes") is ToolCallFormat.HERMES  # needs no other package
    for _ in range(2):  # an error is not remembered as the absence of formats
        with pytest.raises(ConfigurationError, match=f"package acme-agentrt cannot be used: .*{reason}"):
            detect_tool_call_format("{{ tools }}", "other")


def test_importing_loads_no_installed_format(install_format: InstallFormat, tmp_path: Path) -> None:
    install_format("raise AssertionError('loaded')")
    script = "from agentrt.calls import *; parse_tool_calls('x', 'hermes')"
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, check=True)


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
