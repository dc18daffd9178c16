"""The prompts of the drafting bench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.drafting.prompt_sets import Source, load_sets
from agentrt.errors import WorkloadFormatError
from tests.bench.workload_folder import WORKLOADS, has_workloads


def test_sets_that_are_not_there_are_named() -> None:
    said: list[str] = []
    sets = load_sets(None, 2, 1, said.append)
    assert [each.name for each in sets] == ["reply", "edit"]
    assert all(len(each.prompts) == 2 and each.context_heavy for each in sets)
    assert [line.split(" ")[0] for line in said] == [
        "summary", "rag", "mtrag", "ui", "mtrag-un", "ui", "math", "chat", "translation", "qa", "calls"
    ]  # fmt: skip


def test_spec_bench_is_asked_as_upstream_asks_it(tmp_path: Path) -> None:
    records = [
        {"category": "summarization", "context": "It rained.", "question": "?"},
        {"category": "rag", "context": "It rained.", "question": "What was the weather?"},
        {"category": "mt_bench/writing", "question": "Write a poem."},
        {"category": "summarization", "context": "x" * 9000, "question": "?"},
    ]
    (tmp_path / "spec_bench.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    texts = {
        each.name: [prompt.messages[0]["content"] for prompt in each.prompts]
        for each in load_sets(tmp_path, 3, 3, print)
    }
    assert texts["summary"] == ["Summarize: It rained."]
    assert texts["rag"] == ["It rained.\nWhat was the weather?"]
    assert texts["chat"] == ["Write a poem."]
    assert "math" not in texts


def test_steps_of_a_task_follow_each_other(tmp_path: Path) -> None:
    button = "<button id=2 text='More'></button>"
    step = {"tool": "tap", "arguments": {"id": 2, "element": button}, "state": button}
    task = {"task": "Show more", "steps": [step, step, {"tool": "finish", "arguments": {}, "state": "done"}]}
    (tmp_path / "autodroid_tasks.jsonl").write_text(f"{json.dumps(task)}\n" * 2, encoding="utf-8")
    (ui,) = (each for each in load_sets(tmp_path, 3, 1, print) if each.source is Source.PUBLIC)
    first, second, third = (prompt.messages[0]["content"] for prompt in ui.prompts)
    assert "Done: nothing yet" in first
    assert f"Done: tap {button}\nScreen" in second
    assert third.endswith("Screen:\ndone")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "spec_bench.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(WorkloadFormatError, match=r"spec_bench.jsonl, line 1: category"):
        load_sets(tmp_path, 1, 1, print)


@pytest.mark.skipif(not has_workloads(), reason="the public workloads are not beside this checkout")
def test_the_public_workloads_have_all_sets() -> None:
    said: list[str] = []
    sets = load_sets(WORKLOADS, 4, 2, said.append)
    assert said == []
    assert {each.name: len(each.prompts) for each in sets} == {
        "summary": 4, "rag": 4, "mtrag": 4, "ui": 4, "reply": 4, "edit": 4,
        "mtrag-un": 4, "ui of other apps": 4, "math": 2, "chat": 2, "translation": 2, "qa": 2, "calls": 2,
    }  # fmt: skip
    prompts = [prompt for each in sets for prompt in each.prompts]
    assert all(prompts.count(each) == 1 for each in prompts), "nothing that is held back is in another set"
    assert [each.name for each in sets if each.calls] == ["calls"]
