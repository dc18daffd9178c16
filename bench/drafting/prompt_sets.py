"""The prompts that the drafting bench has answered, by kind."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from ..common.workloads import read_records
from ..models.bfcl import FILE as BFCL
from ..models.bfcl import load_tasks

_SPEC_BENCH: Final = "spec_bench.jsonl"
_MTRAG: Final = "mtrag_human_subset.jsonl"
_MTRAG_UN: Final = "mtrag_un.jsonl"
_AUTODROID: Final = "autodroid_tasks.jsonl"
_MOST_CHARACTERS: Final = 3000
"""Of one prompt: about 750 tokens. Longer ones are left out."""
_UI: Final = (
    "You operate a phone. Answer with one line: the word tap, input or finish, then the element of the "
    "screen, copied as it stands there, then the text to input, if any."
)
_RAG: Final = "Answer from these documents."

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools of which one must be called; without any the answer is text."""


class Source(enum.StrEnum):
    """Where the prompts of a set come from."""

    PUBLIC = "public"
    HELD_BACK = "held back"
    """Public, but what drafts was never chosen or tried with them."""
    OWN = "own"
    """Texts of the bench itself."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts of one kind, requests of one app."""

    name: str
    source: Source
    prompts: tuple[Prompt, ...]
    context_heavy: bool
    """Whether the answers are expected to repeat their contexts: the sets of the paper, and edits of code."""

    @property
    def calls(self) -> bool:
        """Whether the answers are tool calls, held to a grammar."""
        return bool(self.prompts and self.prompts[0].tools)


def load_sets(
    folder: Path | None, context_heavy: int, others: int, progress: Callable[[str], None]
) -> list[PromptSet]:
    """Load the sets of a folder of workloads and the bench's own ones; ``progress`` hears what is not there.

    ``context_heavy`` and ``others`` are the numbers of prompts of each set of that kind.

    Raises:
        WorkloadFormatError: a file cannot be read.
    """
    found: list[PromptSet] = []
    for name, (source, file, heavy, load) in _FILES.items():
        if folder is None or not (folder / file).is_file():
            progress(f"{name} is left out: {file} is not in --workloads")
            continue
        prompts = load(folder / file, context_heavy if heavy else others)
        found.append(PromptSet(name, source, tuple(prompts), heavy))
    for name, texts in _own_texts().items():
        found.append(PromptSet(name, Source.OWN, tuple(_of_user(texts[:context_heavy])), True))
    return [each for each in found if each.prompts]


def _own_texts() -> dict[str, list[str]]:
    """Return messages to reply to in the style of earlier replies, and code to return with one change."""
    own = json.loads(resources.files(__package__).joinpath("own_texts.json").read_text("utf-8"))
    earlier = "\n\n".join(own["style"])
    replies = [
        f"These are replies that I wrote:\n\n{earlier}\n\n"
        f"Write my reply to this message in the same style:\n\n{message}"
        for message in own["messages"]
    ]
    edits = [
        f"Return this code {change}. Change nothing else and explain nothing.\n\n"
        f"```python\n{own['code'][place]}\n```"
        for place, change in own["changes"]
    ]
    return {"reply": replies, "edit": edits}


def _of_user(texts: Iterable[str]) -> list[Prompt]:
    return [Prompt(({"role": "user", "content": text},)) for text in texts]


def _spread(items: Sequence[Item], count: int) -> list[Item]:
    step = max(1, len(items) // max(1, count))
    return list(items[::step][:count])


class _Question(BaseModel):
    category: str
    question: str
    context: str = ""


def _spec_bench(category: str) -> Callable[[Path, int], list[Prompt]]:
    """Return the loader of Spec-Bench's questions whose category begins so, with upstream's wordings."""

    def load(file: Path, count: int) -> list[Prompt]:
        records = read_records(file, _Question)
        texts = [_worded(each) for each in records if each.category.startswith(category)]
        return _of_user(_spread([text for text in texts if len(text) <= _MOST_CHARACTERS], count))

    return load


def _worded(question: _Question) -> str:
    if question.category == "summarization":
        return f"Summarize: {question.context}"
    return f"{question.context}\n{question.question}" if question.context else question.question


class _Passage(BaseModel):
    text: str


class _Conversation(BaseModel):
    messages: list[dict[str, Any]]
    context: list[_Passage]

    def prompt(self) -> Prompt:
        documents = "\n\n".join(passage.text.strip() for passage in self.context)
        system = {"role": "system", "content": f"{_RAG}\n\n{documents}"}
        said = ({"role": each["role"], "content": each["content"]} for each in self.messages)
        return Prompt((system, *said))


def _mtrag(file: Path, count: int) -> list[Prompt]:
    prompts = [each.prompt() for each in read_records(file, _Conversation) if each.context]
    return _spread([each for each in prompts if _length(each) <= _MOST_CHARACTERS], count)


def _length(prompt: Prompt) -> int:
    return sum(len(message["content"]) for message in prompt.messages)


class _Arguments(BaseModel):
    element: str = ""
    text: str = ""


class _Step(BaseModel):
    tool: str
    arguments: _Arguments
    state: str

    def action(self) -> str:
        return " ".join(part for part in (self.tool, self.arguments.element, self.arguments.text) if part)


class _Task(BaseModel):
    task: str
    steps: list[_Step]


def _ui(*, held_back: bool) -> Callable[[Path, int], list[Prompt]]:
    """Return the loader of steps of AutoDroid's tasks, those of one task one after the other.

    Held back are those of the apps that come last.
    """

    def load(file: Path, count: int) -> list[Prompt]:
        tasks = [task for task in read_records(file, _Task) if len(task.steps) > 2]
        wanted = max(1, count // 3)
        chosen = tasks[::-1][:wanted] if held_back else _spread(tasks[: len(tasks) // 2], wanted)
        return [prompt for task in chosen for prompt in _ui_steps(task)][:count]

    return load


def _ui_steps(task: _Task) -> list[Prompt]:
    done: list[str] = []
    texts = []
    for step in task.steps:
        before = "\n".join(done) or "nothing yet"
        texts.append(f"{_UI}\n\nTask: {task.task}\nDone: {before}\nScreen:\n{step.state}")
        done.append(step.action())
    return _of_user(texts)


def _calls(file: Path, count: int) -> list[Prompt]:
    kinds = ("simple", "multiple", "parallel")
    groups = load_tasks(file.parent, {kind: -(-count // len(kinds)) for kind in kinds})
    tasks = [task for place in zip(*groups.values(), strict=False) for task in place]
    return [Prompt(tuple(task.messages), tuple(task.tools)) for task in tasks[:count]]


_FILES: Final[dict[str, tuple[Source, str, bool, Callable[[Path, int], list[Prompt]]]]] = {
    "summary": (Source.PUBLIC, _SPEC_BENCH, True, _spec_bench("summarization")),
    "rag": (Source.PUBLIC, _SPEC_BENCH, True, _spec_bench("rag")),
    "mtrag": (Source.PUBLIC, _MTRAG, True, _mtrag),
    "ui": (Source.PUBLIC, _AUTODROID, True, _ui(held_back=False)),
    "mtrag-un": (Source.HELD_BACK, _MTRAG_UN, True, _mtrag),
    "ui of other apps": (Source.HELD_BACK, _AUTODROID, True, _ui(held_back=True)),
    "math": (Source.PUBLIC, _SPEC_BENCH, False, _spec_bench("math_reasoning")),
    "chat": (Source.PUBLIC, _SPEC_BENCH, False, _spec_bench("mt_bench/")),
    "translation": (Source.PUBLIC, _SPEC_BENCH, False, _spec_bench("translation")),
    "qa": (Source.HELD_BACK, _SPEC_BENCH, False, _spec_bench("qa")),
    "calls": (Source.PUBLIC, BFCL, False, _calls),
}
