"""Texts of the tasks of LLMS, Table 3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.context.traces import TASKS, load_texts, own_texts
from agentrt.errors import WorkloadNotFoundError
from tests.bench.workload_folder import WORKLOADS, has_workloads


def words(text: str) -> int:
    return len(text.split())


def write(folder: Path) -> Path:
    records = [
        {"category": "summarization", "context": "first news " * 50},
        {"category": "summarization", "context": "last news " * 50},
        {"category": "rag", "context": "a passage"},
        {"category": "translation", "question": "Guten Tag"},
        {"category": "mt_bench/math", "question": "What is one and one"},
    ]
    (folder / "spec_bench.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    chat = {"messages": [{"role": "user", "content": "Hello there"}]}
    (folder / "mtrag_un.jsonl").write_text(json.dumps(chat))
    return folder


def test_every_task_has_texts_of_its_own(tmp_path: Path) -> None:
    texts = load_texts(write(tmp_path), words)
    begins = [texts.take(task, 60).split()[0] for task in TASKS]
    assert begins == ["first", "last", "Hello", "a", "Guten", "What"]


def test_prompts_are_about_as_long_as_asked_and_go_on(tmp_path: Path) -> None:
    texts = load_texts(write(tmp_path), words)
    first, second = (texts.take(TASKS[0], 150) for _ in range(2))
    assert words(first) == pytest.approx(150, abs=2)
    assert first.startswith("first news first")
    assert "last news" in second.partition("\n")[0], "it goes on where the first one ended"
    assert words(texts.take(TASKS[5], 1)) >= 2, "a word and the request"


def test_own_texts_serve_all_tasks() -> None:
    texts = own_texts(RandomWords(0), words)
    assert [words(texts.take(task, 40)) for task in TASKS] == pytest.approx([40] * 6, abs=2)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadNotFoundError):
        load_texts(tmp_path, words)


@pytest.mark.skipif(not has_workloads(), reason="the public workload sets are not here")
def test_the_public_sets_have_every_task() -> None:
    texts = load_texts(WORKLOADS, words)
    for task in TASKS:
        assert words(texts.take(task, task.most)) == pytest.approx(task.most, rel=0.1)
