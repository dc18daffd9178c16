from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.models import main, opening
from agentrt.bench.models.bfcl import FILE
from agentrt.bench.models.main import calls_in, run, run_all
from agentrt.bench.models.opening import Opening, opening_figures
from agentrt.bench.models.perplexity import FILE as TEXTS
from agentrt.bench.models.perplexity import Scorer, load_texts
from agentrt.calls import ToolCall
from agentrt.errors import ModelFormatError, ModelNotFoundError, WorkloadError, WorkloadNotFoundError
from tests.bench.workload_folder import WEATHER as TOOL

pytestmark = pytest.mark.bench


def test_a_model_is_measured(tmp_path: Path) -> None:
    answer = [{"name": "get_weather", "acceptable": {"city": ["Oslo"]}}]
    task = {"id": "a", "category": "simple_python", "tools": [TOOL], "ground_truth": answer}
    asked = {**task, "messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}
    other = {**asked, "id": "b", "ground_truth": [{"name": "no_such_tool", "acceptable": {}}]}
    (tmp_path / FILE).write_text(f"{json.dumps(asked)}\n{json.dumps(other)}\n", encoding="utf-8")
    report = run(quick=True, workloads=tmp_path, progress=lambda line: None)
    figures = report.figures
    assert figures["bfcl_simple_exact"] == 0.5
    assert figures["second_open_s"] > 0
    assert 0 < figures["first_open_profile_s"] < figures["first_open_s"]
    assert figures["first_open_peak_ratio_vs_weights"] > 1
    assert not {"bfcl_simple_exact_llama_cpp", "ppl_ratio_vs_llama_cpp"} & figures.keys()
    assert "they need a GGUF file" in report.method


def test_a_gguf_file_is_compared_with_llama_cpp(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 8192))
    question = {"role": "user", "content": "What is the weather in Oslo?"}
    task = {"id": "a", "category": "irrelevance", "tools": [TOOL], "ground_truth": [], "messages": [question]}
    (tmp_path / FILE).write_text(json.dumps(task) + "\n", encoding="utf-8")
    texts = [{"context": "It rains in Oslo. " * 20}] * 4
    (tmp_path / TEXTS).write_text("\n".join(map(json.dumps, texts)) + "\n", encoding="utf-8")
    figures = run(quick=True, workloads=tmp_path, progress=lambda line: None, model=str(file)).figures
    assert figures["bfcl_irrelevance_exact"] == figures["bfcl_irrelevance_exact_llama_cpp"] == 1.0
    # Nearly uniform over a vocabulary of 512; other tokens, or others before them, would differ by more.
    assert 400 < figures["ppl"] < 650
    assert figures["ppl_ratio_vs_llama_cpp"] == pytest.approx(1.0, abs=5e-3)


def test_the_text_of_another_server_is_read_again() -> None:
    text = '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```'
    assert calls_in(text, "hermes", [TOOL]) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_openings_are_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([Opening(9.0, 300.0, 3.0, 100.0), *(Opening(s, 200.0, 0.0, 100.0) for s in (1.0, 2.0, 3.0))])
    monkeypatch.setattr(opening, "_in_process", lambda *arguments: next(made))
    assert opening_figures("nano", "", 3, lambda line: None) == {
        "first_open_peak_ratio_vs_weights": 3.0,
        "first_open_s": 9.0,
        "second_open_s": 2.0,
        "first_open_profile_s": 3.0,
        "first_open_peak_mib": 300.0,
        "second_open_peak_mib": 200.0,
    }


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "opening_figures", lambda *arguments: {"first_open_s": 1.0})


@pytest.mark.usefixtures("nothing_is_measured")
def test_several_models_stand_side_by_side(tmp_path: Path) -> None:
    files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for file in files:
        write_random_gguf(file, ModelShape("llama", 1, 64, 128, 2, 1, 512))
    report = run_all(files, quick=True, workloads=None, progress=lambda line: None)
    assert report.figures == {"a: first_open_s": 1.0, "b: first_open_s": 1.0}
    (table,) = report.tables
    assert (table.title, table.columns) == ("real models", ("figure", "a", "b"))
    assert ("`first_open_s`", 1.0, 1.0) in table.rows


@pytest.mark.usefixtures("nothing_is_measured")
def test_the_report_says_what_was_left_out_without_workloads() -> None:
    lines: list[str] = []
    report = run(quick=True, workloads=None, progress=lines.append)
    note = "Exact tool calls (BFCL) and perplexity were left out: they need --workloads."
    assert lines == [note]
    assert report.figures == {"first_open_s": 1.0}
    assert report.method.endswith(note)


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
    assert lines == []


def test_missing_workloads_are_noticed_before_anything_is_measured(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(WorkloadError):
        run(quick=True, workloads=tmp_path, progress=lines.append)
    assert lines == []


def test_texts_are_spread_over_the_records_that_have_one(tmp_path: Path) -> None:
    records = [{"id": n, **({"context": f"text {n}"} if n % 2 else {})} for n in range(20)]
    (tmp_path / TEXTS).write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    assert load_texts(tmp_path, 5) == [f"text {n}" for n in (1, 5, 9, 13, 17)]
    assert len(load_texts(tmp_path, 99)) == 10
    with pytest.raises(WorkloadNotFoundError):
        load_texts(tmp_path / "nowhere", 5)


def test_each_token_but_the_first_is_predicted(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 1024))
    scorer = Scorer(str(file), 12)
    tokens = scorer.tokens("the rain in Spain stays mainly")
    assert len(scorer.log_probabilities(tokens)) == len(tokens) - 1 == 11
