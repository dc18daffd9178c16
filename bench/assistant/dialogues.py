"""Dialogues with what a right answer to each turn has, calls and writes, and the judgement of a turn.

The dialogues in ``dialogues.jsonl`` were written by somebody who knew the tools and the sample data, and had
seen neither the assistant's code nor its prompts. Nothing is tuned on them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

NOW: Final = dt.datetime(2026, 11, 25, 8)
"""When the dialogues take place, a Wednesday; local time."""
WRITES: Final = frozenset({"create_note", "add_event", "delete_note", "delete_event", "move_event"})
_SEARCHES: Final = {"read_note": "search_notes", "read_mail": "search_mail", "read_file": "search_files"}
"""What need not be searched for once it was read."""
_WORD: Final = re.compile(r"[^\W_]+")
_ARTICLES: Final = frozenset({"a", "an", "the"})
_REFUSAL: Final = re.compile(
    r"\b(?:cannot|can't|can not|unable|not able|nothing was|no (?:tool|way)|don't have)\b", re.IGNORECASE
)
_DEEDS: Final = "saved|added|created|noted|scheduled|sent|deleted|moved|cancelled|booked|ordered|done"
_CLAIM: Final = re.compile(
    r"(?:(?:ok|okay|sure|great)[,.! ]+)?"
    r"(?:(?:I(?:'ve| have|'ll| will)?|it's|it is|your \w+ (?:is|was|has been)) )?"
    rf"(?:now |just |been )?(?:{_DEEDS})\b",
    re.IGNORECASE,
)
"""How a sentence begins that says that something was done."""
_NUMBER: Final = re.compile(r"\d+")


class Write(BaseModel):
    """A call that the user asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["create_note", "add_event", "delete_note", "delete_event", "move_event"]
    text: tuple[str, ...] = ()
    """What the note's text has, all of it, in any case; of one that is deleted, its title."""
    title: tuple[str, ...] = ()
    """Titles of the event of which one is right; case, articles and punctuation aside."""
    date: dt.date | None = None
    """On which the event is; of one that is moved, the new one, as ``time`` is."""
    time: str = ""

    def is_done_by(self, name: str, arguments: Mapping[str, Any], result: str = "") -> bool:
        """Return whether a call with that result does this. A move says both its new day and its new time."""
        from agentrt.examples.assistant.dates import parse_date, parse_time
        from agentrt.examples.assistant.errors import ToolError

        if name != self.name:
            return False
        if name in ("create_note", "delete_note"):  # what is deleted has a title, as its result has
            written = str(arguments.get("text") or arguments.get("title") or result).casefold()
            return all(part.casefold() in written for part in self.text)
        new = "new_" if name == "move_event" else ""
        date, time = str(arguments.get(f"{new}date", "")), str(arguments.get(f"{new}time", ""))
        with suppress(ToolError):
            return (
                _words(str(arguments.get("title", ""))) in map(_words, self.title)
                and parse_date(date, NOW.date()) == self.date
                and (parse_time(time) == parse_time(self.time) if time or self.time else True)
            )
        return False


class Turn(BaseModel):
    """A message of the user and what a right answer has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: str
    tools: tuple[str, ...]
    """Those that have to be called, here or in a turn before; small talk needs none, and may have none."""
    answer: tuple[str, ...]
    """Texts that the answer has, in any case: ``"09:30|9:30"`` is one or the other."""
    writes: tuple[Write, ...] = ()
    refuse: bool = False
    """Whether it cannot be done, which the answer has to say."""


class Dialogue(BaseModel):
    """Turns of one conversation, on fresh data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    turns: tuple[Turn, ...]


def load_dialogues() -> list[Dialogue]:
    """Return all dialogues in the order of the file."""
    lines = Path(__file__).with_name("dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    return [TypeAdapter(Dialogue).validate_json(line) for line in lines if line]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an answer to a turn was."""

    exact: bool
    """Right tools, right answer, every write and no other."""
    wrong_writes: int = 0
    is_false: bool = False
    """It reports a deed without a call that did it, states a number that was nowhere said or found, or does
    not say that what was asked cannot be done."""
    silent: bool = False
    loops: bool = False


def judge(turn: Turn, messages: Sequence[AnyMessage], known: str, called: Collection[str] = ()) -> Judgement:
    """Judge the messages behind a turn's question.

    ``known`` has what the user said and tools returned so far, ``called`` the tools called before.
    """
    from langchain_core.messages import AIMessage, ToolMessage

    from agentrt.examples.assistant.checks import sentences

    results = [message for message in messages if isinstance(message, ToolMessage)]
    returned = {each.tool_call_id: each.text for each in results if not each.text.startswith('{"error"')}
    calls = [
        (call["name"], call["args"], returned[call["id"] or ""])
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] in returned
    ]
    written = [call for call in calls if call[0] in WRITES]
    open_writes, wrong = list(turn.writes), 0
    for call in written:
        if right := next((write for write in open_writes if write.is_done_by(*call)), None):
            open_writes.remove(right)
        else:
            wrong += 1
    answer = messages[-1].text.replace("\u2019", "'")
    silent, loops = not answer.strip(), _loops(answer)
    refused = _REFUSAL.search(answer) is not None
    claims = not written and any(_CLAIM.match(sentence.strip()) for sentence in sentences(answer))
    false = not silent and (
        claims
        or (turn.refuse and not refused)
        or (bool(calls) and _has_new_number(answer, known, [call[1] for call in calls]))
    )
    names = {call[0] for call in calls}
    names |= {_SEARCHES[name] for name in names if name in _SEARCHES}
    expected = {*turn.tools, *(write.name for write in turn.writes)}
    is_talk = not (expected or turn.refuse or "?" in turn.answer)
    exact = (
        (not names if is_talk else expected <= names.union(called))
        and not (open_writes or wrong or false or silent or loops)
        and all(_is_in(answer, part) for part in turn.answer)
    )
    return Judgement(exact, wrong, false, silent, loops)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if word not in _ARTICLES]


def _is_in(answer: str, part: str) -> bool:
    return any(alternative.casefold() in answer.casefold() for alternative in part.split("|"))


def _loops(answer: str) -> bool:
    from agentrt.examples.assistant.checks import LoopDetector, sentences

    detector = LoopDetector()
    return any(detector.is_loop(sentence) for sentence in sentences(answer))


def _has_new_number(answer: str, known: str, called_with: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a number of the answer is neither known nor of a day that was called for."""
    from agentrt.examples.assistant.dates import parse_days
    from agentrt.examples.assistant.errors import ToolError

    days = [NOW.date()]
    for arguments in called_with:
        with suppress(ToolError):
            first, last = parse_days(str(arguments.get("date", "")), NOW.date())
            days += [first + dt.timedelta(day) for day in range((last - first).days + 1)]
    numbers = {int(each) for each in _NUMBER.findall(known)}
    numbers |= {line.count('{"') for line in known.splitlines() if line.startswith("[{")}  # of what was found
    numbers |= {NOW.hour, NOW.minute}
    numbers |= {part for day in days for part in (day.year, day.month, day.day)}
    return any(int(each) not in numbers for each in _NUMBER.findall(answer))
