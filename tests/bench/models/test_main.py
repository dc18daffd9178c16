from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.models.bfcl import FILE
from agentrt.bench.models.main import run

pytestmark = pytest.mark.bench

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_a_model_is_measured(tmp_path: Path) -> None:
    answer = [{"name": "get_weather", "acceptable": {"city": ["Oslo"]}}]
    task = {"id": "a", "category": "simple_python", "tools": [TOOL], "ground_truth": answer}
    asked = {**task, "messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}
    other = {**asked, "id": "b", "ground_truth": [{"name": "no_such_tool", "acceptable": {}}]}
    (tmp_path / FILE).write_text(f"{json.dumps(asked)}\n{json.dumps(other)}\n", encoding="utf-8")
    report = run(quick=True, workloads=tmp_path, progress=lambda line: None)
    assert report.figures["gguf_types_exact"] == 21
    assert report.figures["gguf_types_tried"] == 26
    assert report.figures["architectures_equal"] == report.figures["architectures_tried"]
    assert report.figures["tool_call_recall"] == 1.0
    assert report.figures["false_calls"] == 0
    assert report.figures["bfcl_simple_exact"] == 0.5
    assert report.figures["second_open_s"] > 0
    assert report.figures["peak_rss_ratio_vs_openvino_genai"] > 0
    assert "bfcl_simple_exact_llama_cpp" not in report.figures
