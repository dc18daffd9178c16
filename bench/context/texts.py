"""Texts of the tasks of LLMS, Table 3, from public data sets, cut to a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ..common.bench_model import Prompts
from ..common.workloads import read_records
from .traces import TASKS, Task

SPEC_BENCH: Final = "spec_bench.jsonl"
MTRAG: Final = "mtrag_un.jsonl"

_REQUESTS: Final = {
    "news classification": "Which section of a newspaper is this from?",
    "document summary": "Summarize this document.",
    "chat history summary": "Summarize this chat.",
    "text comprehension": "What is this text about?",
    "translation": "Translate this into English.",
    "sentiment classification": "Is this positive or negative?",
}


class TaskTexts:
    """An endless supply of prompts for each task; no two in a row are alike."""

    def __init__(self, words: dict[str, list[str]], count_tokens: Callable[[str], int]) -> None:
        """``words`` has the text of each task by its name."""
        self._words = words
        self._places = dict.fromkeys(words, 0)
        self._tokens_a_word = {
            name: max(1.0, count_tokens(" ".join(found[:2000])) / len(found[:2000]))
            for name, found in words.items()
        }
        self._request_tokens = {name: count_tokens(request) for name, request in _REQUESTS.items()}

    def take(self, task: Task, tokens: int) -> str:
        """Return the next prompt of ``task``, of about ``tokens`` tokens."""
        words, place = self._words[task.name], self._places[task.name]
        count = round((tokens - self._request_tokens[task.name]) / self._tokens_a_word[task.name])
        taken = [words[at % len(words)] for at in range(place, place + max(1, count))]
        self._places[task.name] = (place + len(taken)) % len(words)
        return " ".join(taken) + "\n" + _REQUESTS[task.name]


def load_texts(folder: Path, count_tokens: Callable[[str], int]) -> TaskTexts:
    """Load the texts of ``folder``: news articles, passages, conversations, German sentences, questions.

    Raises:
        WorkloadNotFoundError: a file is not there.
        WorkloadFormatError: a line cannot be read.
    """
    records = list(read_records(folder / SPEC_BENCH, _SpecBench))
    chats = list(read_records(folder / MTRAG, _Conversation))

    def contexts(category: str) -> Iterator[str]:
        return (record.context for record in records if record.category == category)

    def questions(category: str) -> Iterator[str]:
        return (record.question for record in records if record.category.startswith(category))

    texts: dict[str, Iterable[str]] = {
        "news classification": contexts("summarization"),
        "document summary": list(contexts("summarization"))[::-1],
        "chat history summary": (message.content for chat in chats for message in chat.messages),
        "text comprehension": contexts("rag"),
        "translation": questions("translation"),
        "sentiment classification": questions("mt_bench"),
    }
    words = {name: [word for text in found for word in text.split()] for name, found in texts.items()}
    return TaskTexts({name: found or ["word"] for name, found in words.items()}, count_tokens)


def own_texts(prompts: Prompts, count_tokens: Callable[[str], int]) -> TaskTexts:
    """Return the same words for all tasks: without workloads, and for models that know few words."""
    words = " ".join(prompts.take(500) for _ in range(4)).split()
    return TaskTexts({task.name: words for task in TASKS}, count_tokens)


class _SpecBench(BaseModel):
    category: str
    context: str = ""
    question: str = ""


class _Message(BaseModel):
    content: str


class _Conversation(BaseModel):
    messages: list[_Message]
