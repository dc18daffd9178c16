"""The names that users rely on, and what importing them does not pull in."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

EXPORTS = {
    "agentrt": {
        *("DraftRequest", "Priority", "SpeculationConfig", "SpeculationReport", "SpeculationSession"),
        *("ToolCall", "current_priority", "priority", "run_scope", "speculable"),
    },
    "agentrt.adapters.langchain": {"ChatAgentRT", "RunRecorder", "report_of", "speculate"},
    "agentrt.adapters.openai": {"arun_tool", "report_of", "run_tool", "speculate"},
    "agentrt.speculators": {
        *("EndpointSpeculator", "EnsembleSpeculator", "LocalSpeculator"),
        *("PatternSpeculator", "Speculator", "StreamSpeculator"),
    },
    "agentrt.adapters.mcp": {"McpTool", "speculable_tools"},
    "agentrt.testing": {
        *("RecordedSpeculator", "Replayed", "ScriptedSpeculator", "replay", "run_in_virtual_time"),
    },
}


@pytest.mark.parametrize("module", EXPORTS)
def test_the_exported_names(module: str) -> None:
    imported = importlib.import_module(module)
    assert set(imported.__all__) == EXPORTS[module]
    assert all(hasattr(imported, name) for name in imported.__all__)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("agentrt", "langchain_core openai openvino openvino_genai httpx numpy torch"),
        ("agentrt.speculators", "langchain_core openai openvino openvino_genai"),
        ("agentrt.adapters.langchain", "openai openvino openvino_genai"),
        ("agentrt.adapters.openai", "langchain_core openvino openvino_genai"),
    ],
)
def test_importing_one_part_does_not_import_another_parts_dependencies(module: str, absent: str) -> None:
    program = f"import sys, {module}; print([name for name in '{absent}'.split() if sys.modules.get(name)])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
