from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.models import main
from agentrt.bench.models.bfcl import FILE
from agentrt.bench.models.conversions import ConvertedType
from agentrt.bench.models.greedy import GreedyAnswer
from agentrt.bench.models.main import run, run_all
from agentrt.bench.models.opening import Opening, Openings
from agentrt.bench.models.perplexity import FILE as TEXTS
from agentrt.errors import ModelFormatError, ModelNotFoundError, WorkloadError

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
    assert report.figures["gguf_types_faithful"] == 26
    assert report.figures["gguf_types_tried"] == 26
    assert report.figures["architectures_equal"] == report.figures["architectures_tried"]
    assert report.figures["tool_call_recall"] == 1.0
    assert report.figures["false_calls"] == 0
    assert report.figures["bfcl_simple_exact"] == 0.5
    assert report.figures["greedy_equal_openvino_genai"] == report.figures["greedy_tried"] == 3
    assert report.figures["second_open_s"] > 0
    assert 0 < report.figures["first_open_profile_s"] < report.figures["first_open_s"]
    assert report.figures["first_open_peak_ratio_vs_weights"] > 1
    assert report.figures["peak_rss_ratio_vs_openvino_genai"] > 0
    assert "bfcl_simple_exact_llama_cpp" not in report.figures
    assert "ppl_ratio_vs_llama_cpp" not in report.figures
    assert "bfcl_*_exact" in report.method
    assert "ppl_ratio" not in report.method
    assert "they need a GGUF file" in report.method


def test_a_gguf_file_is_compared_with_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(main, "compare_conversions", lambda folder: [ConvertedType("Q4_0", 0.0)])
    monkeypatch.setattr(main, "compare_architectures", lambda folder: [])
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 8192))
    question = {"role": "user", "content": "What is the weather in Oslo?"}
    task = {"id": "a", "category": "irrelevance", "tools": [TOOL], "ground_truth": [], "messages": [question]}
    (tmp_path / FILE).write_text(json.dumps(task) + "\n", encoding="utf-8")
    texts = [{"context": "It rains in Oslo. " * 20}] * 4
    (tmp_path / TEXTS).write_text("\n".join(map(json.dumps, texts)) + "\n", encoding="utf-8")
    figures = run(quick=True, workloads=tmp_path, progress=lambda line: None, model=str(file)).figures
    assert figures["bfcl_irrelevance_exact"] == figures["bfcl_irrelevance_exact_llama_cpp"] == 1.0
    assert figures["ppl_ratio_vs_llama_cpp"] == pytest.approx(1.0, abs=5e-3)
    assert figures["greedy_equal_openvino_genai"] == figures["greedy_tried"]


def test_several_models_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "compare_conversions", lambda folder: [ConvertedType("Q4_0", 0.0)])
    monkeypatch.setattr(main, "compare_architectures", lambda folder: [])
    openings = Openings(Opening(3.0, 300.0), Opening(1.0, 200.0), Opening(1.0, 100.0))
    monkeypatch.setattr(main, "measure_openings", lambda *arguments: openings)
    monkeypatch.setattr(main, "compare_greedy_answers", lambda *arguments: [GreedyAnswer("p", 3, 2)])
    files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for file in files:
        write_random_gguf(file, ModelShape("llama", 1, 64, 128, 2, 1, 512))
    report = run_all(files, quick=True, workloads=None, progress=lambda line: None)
    assert report.figures["gguf_types_faithful"] == 1
    assert report.figures["b: greedy_equal_openvino_genai"] == 0
    assert report.figures["a: peak_rss_ratio_vs_openvino_genai"] == 2.0
    table = next(table for table in report.tables if table.title == "real models")
    assert table.columns == ("figure", "a", "b")
    assert ("`second_open_s`", 1.0, 1.0) in table.rows


@pytest.mark.parametrize(
    ("content", "error"), [(None, ModelNotFoundError), (b"GGUF", ModelFormatError), (b"x", ModelFormatError)]
)
def test_a_wrong_model_is_refused_before_anything_is_measured(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    file, lines = tmp_path / "wrong.gguf", list[str]()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error):
        run(quick=True, workloads=None, progress=lines.append, model=str(file))
    with pytest.raises(error):
        run_all([file], quick=True, workloads=None, progress=lines.append)
    assert lines == []


def test_missing_workloads_are_noticed_before_anything_is_measured(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(WorkloadError):
        run(quick=True, workloads=tmp_path, progress=lines.append)
    assert lines == []


def test_the_report_says_what_was_left_out_without_workloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "compare_conversions", lambda folder: [ConvertedType("Q4_0", 0.0)])
    monkeypatch.setattr(main, "compare_architectures", lambda folder: [])
    openings = Openings(Opening(3.0, 300.0), Opening(1.0, 200.0), Opening(1.0, 100.0))
    monkeypatch.setattr(main, "measure_openings", lambda *arguments: openings)
    monkeypatch.setattr(main, "compare_greedy_answers", lambda *arguments: [GreedyAnswer("p", 3, 2)])
    lines: list[str] = []
    method = run(quick=True, workloads=None, progress=lines.append).method
    note = "Exact tool calls (BFCL) and perplexity were left out: they need --workloads."
    assert lines[0] == note
    assert method.endswith(note)
    assert "bfcl_" not in method
    assert "ppl_" not in method
    assert "first_open_s is" in method
