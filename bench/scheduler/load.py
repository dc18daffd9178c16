"""The lengths of the scheduler bench's requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

LengthPairs: TypeAlias = Sequence[tuple[int, int]]
"""Prompt and answer tokens to draw from."""
_CHARACTERS_A_TOKEN: Final = 4
"""English text in a tokenizer of some tens of thousands of tokens."""

# Medians of the public sets named beside them, for runs without a workloads folder.
_REACTIVE: Final = ((60, 120), (180, 100), (420, 60), (640, 60), (900, 120))  # chat, function calls, RAG
_PROACTIVE: Final = ((240, 40), (520, 60), (760, 80), (1100, 60))  # events, group chats, news articles


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and answer tokens of recorded requests, to draw from."""

    reactive: tuple[tuple[int, int], ...]
    proactive: dict[str, tuple[tuple[int, int], ...]]
    """By kind of work."""

    def any_proactive(self) -> tuple[tuple[int, int], ...]:
        return tuple(pair for pairs in self.proactive.values() for pair in pairs)


def recorded_lengths(folder: Path | None) -> Lengths:
    """Return lengths from the public sets found in ``folder``; typical ones without a folder."""
    if folder is None:
        return Lengths(_REACTIVE, {"typical": _PROACTIVE})
    reactive = [
        *_chats(folder / "spec_bench.jsonl"),
        *_retrieval(folder / "mtrag_un.jsonl"),
        *_function_calls(folder / "bfcl_single.jsonl"),
    ]
    proactive = {
        "events (ProactiveBench)": tuple(_events(folder / "proactive_reward.jsonl")),
        "summaries (CNN/DailyMail)": tuple(_summaries(folder / "spec_bench.jsonl")),
        "conversations (MTRAG)": tuple(_retrieval(folder / "mtrag_human_subset.jsonl")),
    }
    found = {kind: pairs for kind, pairs in proactive.items() if pairs}
    if not reactive or not found:
        return recorded_lengths(None)
    return Lengths(tuple(reactive), found)


def _records(file: Path) -> Iterator[dict[str, Any]]:
    if file.is_file():
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _tokens(*texts: object) -> int:
    return max(8, sum(len(str(text)) for text in texts) // _CHARACTERS_A_TOKEN)


def _chats(file: Path) -> Iterator[tuple[int, int]]:
    for record in _records(file):
        if record["category"] not in ("summarization", "rag") and record.get("turns"):
            yield _tokens(record["turns"][0]), 120


def _summaries(file: Path) -> Iterator[tuple[int, int]]:
    for record in _records(file):
        if record["category"] == "summarization":
            yield _tokens(record["context"]), 80


def _retrieval(file: Path) -> Iterator[tuple[int, int]]:
    for record in _records(file):
        passages = [passage["text"] for passage in record["context"]]
        prompt = _tokens(*passages, *(message["content"] for message in record["messages"]))
        yield prompt, min(160, _tokens(record["reference"]))


def _function_calls(file: Path) -> Iterator[tuple[int, int]]:
    for record in _records(file):
        yield _tokens(json.dumps(record["tools"]), json.dumps(record["messages"])), 40


def _events(file: Path) -> Iterator[tuple[int, int]]:
    for record in _records(file):
        yield 200 + _tokens(*(event["event"] for event in record["events"])), 40
