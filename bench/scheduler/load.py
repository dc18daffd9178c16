"""The lengths of the scheduler bench's requests."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

LengthPairs: TypeAlias = Sequence[tuple[int, int]]
"""Prompt and answer tokens to draw from."""
Records: TypeAlias = Iterable[dict[str, Any]]

DEVELOPMENT: Final = "development"
HELD_BACK: Final = "held back"
"""Sets of records; nothing is tuned on those held back."""

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


def recorded_lengths(folder: Path | None) -> dict[str, Lengths]:
    """Return lengths from the public sets in ``folder``, by set: :data:`DEVELOPMENT` and :data:`HELD_BACK`.

    Half of the records are held back, those that belong together with each other. Without a folder, or
    without the sets in it, there are typical lengths alone, as the development set.
    """
    found = {name: _lengths(folder, name == HELD_BACK) for name in (DEVELOPMENT, HELD_BACK)} if folder else {}
    if not found or not all(each.reactive and each.proactive for each in found.values()):
        return {DEVELOPMENT: Lengths(_REACTIVE, {"typical": _PROACTIVE})}
    return found


def _lengths(folder: Path, held_back: bool) -> Lengths:
    def records(name: str) -> list[dict[str, Any]]:
        return [each for each in _records(folder / f"{name}.jsonl") if _is_held_back(each) is held_back]

    spec_bench = records("spec_bench")
    proactive = {
        "events (ProactiveBench)": tuple(_events(records("proactive_reward"))),
        "summaries (CNN/DailyMail)": tuple(_summaries(spec_bench)),
        "conversations (MTRAG)": tuple(_retrieval(records("mtrag_human_subset"))),
    }
    reactive = (
        *_chats(spec_bench),
        *_retrieval(records("mtrag_un")),
        *_function_calls(records("bfcl_single")),
    )
    return Lengths(reactive, {kind: pairs for kind, pairs in proactive.items() if pairs})


def _records(file: Path) -> Iterator[dict[str, Any]]:
    if file.is_file():
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _is_held_back(record: dict[str, Any]) -> bool:
    return zlib.crc32(str(record.get("group") or record["id"]).encode()) % 2 == 1


def _tokens(*texts: object) -> int:
    return max(8, sum(len(str(text)) for text in texts) // _CHARACTERS_A_TOKEN)


def _chats(records: Records) -> Iterator[tuple[int, int]]:
    for record in records:
        if record["category"] not in ("summarization", "rag") and record.get("turns"):
            yield _tokens(record["turns"][0]), 120


def _summaries(records: Records) -> Iterator[tuple[int, int]]:
    for record in records:
        if record["category"] == "summarization":
            yield _tokens(record["context"]), 80


def _retrieval(records: Records) -> Iterator[tuple[int, int]]:
    for record in records:
        passages = [passage["text"] for passage in record["context"]]
        prompt = _tokens(*passages, *(message["content"] for message in record["messages"]))
        yield prompt, min(160, _tokens(record["reference"]))


def _function_calls(records: Records) -> Iterator[tuple[int, int]]:
    for record in records:
        yield _tokens(json.dumps(record["tools"]), json.dumps(record["messages"])), 40


def _events(records: Records) -> Iterator[tuple[int, int]]:
    for record in records:
        yield 200 + _tokens(*(event["event"] for event in record["events"])), 40
