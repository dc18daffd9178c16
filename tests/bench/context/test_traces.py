"""The traces of LLMS §4, and the texts of its Table 3."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from pathlib import Path

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.context.traces import PATTERNS, TASKS, draw_trace, load_texts, own_texts, task_of
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
    own = own_texts(RandomWords(0), words)
    assert [words(own.take(task, 40)) for task in TASKS] == pytest.approx([40] * 6, abs=2)
    with pytest.raises(WorkloadNotFoundError):
        load_texts(tmp_path / "nowhere", words)


@pytest.mark.skipif(not has_workloads(), reason="the public workload sets are not here")
def test_the_public_sets_have_every_task() -> None:
    texts = load_texts(WORKLOADS, words)
    for task in TASKS:
        assert words(texts.take(task, task.most)) == pytest.approx(task.most, rel=0.1)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_calls_are_poisson_and_as_long_as_table_3_says(pattern: str) -> None:
    trace = draw_trace(pattern, 7, 3000, interval_s=300.0)
    times = [call.at_s for call in trace]
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert statistics.fmean(gaps) == pytest.approx(300, rel=0.1)
    assert statistics.pstdev(gaps) == pytest.approx(300, rel=0.15), "exponential"
    assert {call.context for call in trace} == set(range(7))
    for call in trace:
        assert call.task is task_of(call.context)
        assert call.task.least <= call.tokens <= call.task.most
    assert draw_trace(pattern, 7, 3000, interval_s=300.0) == trace != draw_trace(pattern, 7, 3000, seed=1)


def test_random_contexts_are_equally_likely() -> None:
    counts = Counter(call.context for call in draw_trace("random", 4, 4000))
    assert all(count == pytest.approx(1000, rel=0.15) for count in counts.values())


def test_markov_prefers_what_was_used_last() -> None:
    contexts = [call.context for call in draw_trace("markov", 8, 4000)]
    again = sum(before == after for before, after in itertools.pairwise(contexts))
    assert again / 4000 == pytest.approx(1 / sum(1 / n for n in range(1, 9)), rel=0.15)
    assert max(Counter(contexts).values()) < 2 * min(Counter(contexts).values()), "no context is special"


def test_gaussian_prefers_a_moderate_workload() -> None:
    counts = Counter(call.context for call in draw_trace("gaussian", 6, 4000))
    moderate = min(range(6), key=lambda at: abs(TASKS[at].mean - statistics.fmean(t.mean for t in TASKS)))
    largest = max(range(6), key=lambda at: TASKS[at].mean)
    assert counts[moderate] == max(counts.values())
    assert counts[largest] == min(counts.values())


def test_lengths_are_scaled() -> None:
    full, half = (draw_trace("random", 3, 50, scale=scale) for scale in (1.0, 0.5))
    assert [call.tokens for call in half] == pytest.approx([call.tokens / 2 for call in full], abs=1)
    with pytest.raises(ValueError, match="no pattern 'sometimes'"):
        draw_trace("sometimes", 2, 2)
