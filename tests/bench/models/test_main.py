from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.estimates import Estimate, share
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.models import main, opening
from agentrt.bench.models.bfcl import FILE, is_held_back
from agentrt.bench.models.main import calls_in, run
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
    held_back = {**asked, "id": "e"}
    lines = [json.dumps(each) for each in (asked, other, held_back)]
    (tmp_path / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = run(quick=True, workloads=tmp_path, progress=lambda line: None)
    figures = report.figures
    assert all(is_held_back(each) == (each == "e") for each in "abe")
    assert figures["bfcl_simple_exact"] == share(1, 2)
    assert figures["bfcl_simple_exact_held_back"] == share(1, 1)
    assert figures["second_open_s"].value > 0
    assert 0 < figures["first_open_profile_s"].value < figures["first_open_s"].value
    assert figures["first_open_peak_ratio_vs_weights"].value > 1
    assert not {"bfcl_simple_exact_llama_cpp", "ppl_ratio_vs_llama_cpp"} & figures.keys()
    assert "they need a GGUF file" in report.method


@pytest.mark.usefixtures("nothing_is_measured")
def test_a_gguf_file_is_compared_with_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(main, "_MOST_TOKENS", 16)  # of an answer that has no call
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 8192))
    question = {"role": "user", "content": "What is the weather in Oslo?"}
    task = {"id": "a", "category": "live_simple", "tools": [TOOL], "ground_truth": [], "messages": [question]}
    (tmp_path / FILE).write_text(json.dumps(task) + "\n", encoding="utf-8")
    texts = [{"id": each, "context": "It rains in Oslo. " * 20} for each in "abefg"]
    (tmp_path / TEXTS).write_text("\n".join(map(json.dumps, texts)) + "\n", encoding="utf-8")
    figures = run(quick=True, workloads=tmp_path, progress=lambda line: None, models=[str(file)]).figures
    assert figures["bfcl_simple_exact"] == figures["bfcl_simple_exact_llama_cpp"] == share(1, 1)
    for held_back, samples in (("", 2), ("_held_back", 3)):
        # Nearly uniform over a vocabulary of 512; other tokens, or others before them, would differ by more.
        assert 400 < figures[f"ppl{held_back}"].value < 650
        assert figures[f"ppl_ratio_vs_llama_cpp{held_back}"].value == pytest.approx(1.0, abs=5e-3)
        assert figures[f"ppl{held_back}"].samples == samples


def test_the_text_of_another_server_is_read_again() -> None:
    text = '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```'
    assert calls_in(text, "hermes", [TOOL]) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_openings_are_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[str] = []

    def open_in(model: str, cache: str) -> Opening:
        again = cache in caches
        caches.append(cache)
        seconds = len(set(caches)) * (1.0 if again else 10.0)
        return Opening(seconds, 200.0, 0.0, 100.0) if again else Opening(seconds, 300.0, 3.0, 100.0)

    monkeypatch.setattr(opening, "_in_process", open_in)
    found = opening_figures("nano", 3, lambda line: None)
    assert {name: figure.value for name, figure in found.items()} == {
        "first_open_peak_ratio_vs_weights": 3.0,
        "first_open_s": 20.0,
        "second_open_s": 2.0,
        "first_open_profile_s": 3.0,
        "first_open_peak_mib": 300.0,
        "second_open_peak_mib": 200.0,
    }
    assert (found["first_open_s"].low, found["first_open_s"].high) == (10.0, 30.0)


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "opening_figures", lambda *arguments: {"first_open_s": Estimate(value=1.0)})


@pytest.mark.usefixtures("nothing_is_measured")
def test_several_models_stand_side_by_side(tmp_path: Path) -> None:
    files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for file in files:
        write_random_gguf(file, ModelShape("llama", 1, 64, 128, 2, 1, 512))
    report = run(quick=True, workloads=None, progress=lambda line: None, models=list(map(str, files)))
    one = Estimate(value=1.0)
    assert report.figures == {"a: first_open_s": one, "b: first_open_s": one}
    (table,) = report.tables
    assert (table.title, table.columns) == ("real models", ("figure", "a", "b"))
    assert ("`first_open_s`", one, one) in table.rows


@pytest.mark.usefixtures("nothing_is_measured")
def test_the_report_says_what_was_left_out_without_workloads() -> None:
    lines: list[str] = []
    report = run(quick=True, workloads=None, progress=lines.append)
    note = "Exact tool calls (BFCL) and perplexity were left out: they need --workloads."
    assert lines == [note]
    assert report.figures == {"first_open_s": Estimate(value=1.0)}
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
        run(quick=True, workloads=None, progress=lines.append, models=[str(file)])
    assert lines == []


def test_missing_workloads_are_noticed_before_anything_is_measured(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(WorkloadError):
        run(quick=True, workloads=tmp_path, progress=lines.append)
    assert lines == []


def test_texts_are_spread_over_the_records_that_have_one(tmp_path: Path) -> None:
    records = [{"id": f"t{n}", **({"context": f"text {n}"} if n % 2 else {})} for n in range(20)]
    (tmp_path / TEXTS).write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    assert load_texts(tmp_path, 2, held_back=False) == ["text 1", "text 5"]
    of_sets = [load_texts(tmp_path, 99, held_back=held_back) for held_back in (False, True)]
    assert sorted(of_sets[0] + of_sets[1]) == sorted(f"text {n}" for n in range(1, 20, 2))
    assert of_sets[1] == [f"text {n}" for n in range(1, 20, 2) if is_held_back(f"t{n}")]
    with pytest.raises(WorkloadNotFoundError):
        load_texts(tmp_path / "nowhere", 5, held_back=True)


def test_each_token_but_the_first_is_predicted(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 1024))
    scorer = Scorer(str(file), 12)
    tokens = scorer.tokens("the rain in Spain stays mainly")
    assert len(scorer.log_probabilities(tokens)) == len(tokens) - 1 == 11
