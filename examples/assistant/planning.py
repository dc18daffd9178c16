"""What a message asks for, request by request, as its words say: calls, fixed answers, or nothing to tell by.

"What is on tomorrow, and add lunch with Ben on Friday at 12" are two requests. Most need no model: a day, a
city, an ordinal, or words of one of the user's texts say which tool is meant, and with which arguments.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, Final

from . import phrases
from .asked_days import AskedDays, days_of
from .changes import POINTS_BACK, UNCLEAR, WITHDRAWN, Changes
from .data import PersonalData
from .dictation import (
    WHICH_TEXT,
    another_note,
    dictated_note,
    note_that_was_said,
    notes_what_is_found,
    notes_what_was_said,
)
from .meant import event_spoken_of
from .needs import Need, needs_of_words
from .references import PLACE, READERS, referred
from .results import Made, state
from .retrieval import KINDS, TEXT_TOOLS, Found, TextKind, content_words, retrieve
from .sentences import Kind, Sentence, is_request, kinds_in, plain, sentences_in
from .when import days_in, first_day
from .writes import DEPENDS, NOT_ASKED, WHICH_EVENT, Call, is_headed, is_trailed, wanted_events

_TO_ANSWER: Final[Sequence[Kind]] = ("asks", "names", "tells", "chats")
"""Which sentence of a message is answered where none is sure: the last one of the first kind that it has."""
_NAME: Final = re.compile(r"[^\W\d_]{3,}")
WHICH_CITY: Final = "In which city?"
ONLY_NOW: Final = "Of other days I do not know the weather."
NO_WEB: Final = "I cannot search the web: there is no tool for that here, and nothing was looked up."
WHAT_TO_WRITE: Final = "What to write is not clear. Say for example: add lunch on Friday at 12:00."
_NOT_ANSWERED: Final = "Not answered:"
NOT_ANSWERED: Final = f'{_NOT_ANSWERED} "{{}}" Ask that alone.'
_LISTS: Final[Mapping[TextKind, Call]] = {
    "mail": ("search_mail", {"query": "new mail"}),
    "notes": ("search_notes", {"query": "all notes"}),
    "files": ("search_files", {"query": "all files"}),
}
LOOKS_UP: Final = frozenset(
    {*(tool for tools in TEXT_TOOLS.values() for tool in (tools.search, tools.read))}
    | {"list_events", "get_weather", "search_web"}
)
"""Tools that change nothing."""
_SURE: Final = 0.5
_LIKELY: Final = 0.3
_CERTAIN: Final = 0.8
"""Of a question with a pronoun, which may mean what was read last."""
_FEW_WORDS: Final = 3
"""With fewer, a text that has them all is met by chance."""


_SAYS: Final = phrases.any_case(r"\bsays?\b|\((?:see |from |in )?(?:my |the )?(?:notes|files|mails?)\)")
"""In a question for what stands in a text, not for which texts there are."""


@dataclass(frozen=True)
class Step:
    """One request of a message."""

    text: str
    calls: Sequence[Call] = ()
    says: str = ""
    """A fixed answer."""
    found: Found | None = None
    """The text that the request may be about, if its words do not tell for sure."""
    is_closest: bool = False
    """Whether the call may not be for what is meant."""
    notes_found: bool = False
    """Whether a note is wanted of what the message's other requests find."""

    @property
    def is_sure(self) -> bool:
        return bool(self.calls or self.says or self.notes_found)

    @property
    def is_settled(self) -> bool:
        """Whether it writes, or says something else than that it is not clear what is to be changed."""
        writes = any(name not in LOOKS_UP for name, _ in self.calls)
        return (
            writes
            or self.notes_found
            or (
                bool(self.says)
                and not self.says.startswith((*UNCLEAR, WHICH_EVENT, WHAT_TO_WRITE, _NOT_ANSWERED))
            )
        )


@dataclass(frozen=True)
class Planner:
    """Plans a message by its words, the user's data and what was called before."""

    data: PersonalData
    today: dt.date
    has_web: bool = False
    """Whether there is a tool that searches the web."""
    said_before: str = ""
    """The user's message before."""
    now: dt.datetime | None = None
    """The local time, if what is over is not to count as ahead."""

    def plan(self, message: str, before: Sequence[Made], earlier: Sequence[Made]) -> list[Step]:
        """Return the requests of ``message``.

        ``before`` has the calls for the message before, ``earlier`` all others.
        """
        message = plain(message)
        if phrases.DID_YOU.match(message):
            return [Step(message, says=_written(before, earlier, self.today))]
        if before and before[-1].name == "create_note" and (text := another_note(message)):
            return [Step(message, calls=[("create_note", {"text": text})])]
        with self.data.sources.seen_once():
            steps = self._plan(message, before, earlier)
            if any(step.is_settled for step in steps):
                return steps
            # Only together its sentences may say what is to be changed, to when, and that it is to be.
            whole = self._changes(before, earlier).wanted_in_all(message)
            if whole is None:
                events = wanted_events(message, self.today)
                whole = events if isinstance(events, list) else None
            return steps if whole is None else [_answered(Step(message), whole)]

    def _plan(self, message: str, before: Sequence[Made], earlier: Sequence[Made]) -> list[Step]:
        is_one = is_headed(message) or is_trailed(message, self.today)
        if is_one or note_that_was_said(message) or WITHDRAWN.search(message):
            return [self._step(Sentence(message, "asks"), "", before, earlier)]
        sentences = sentences_in(message, self.today)
        steps: list[Step] = []
        missed: list[Step] = []
        told = [
            each for each in sentences if each.kind == "tells" and kinds_in(each.text)
        ]  # "it's in a note"
        for place, sentence in enumerate(sentences):
            text, is_last = sentence.text, place == len(sentences) - 1
            kinds = kinds_in(" ".join(each.text for each in sentences[:place]))
            if kinds and phrases.THE_REST.search(text):
                text = phrases.THE_REST.sub(f"all {kinds[0]}", text)
                sentence = replace(sentence, text=text)
            if sentence.kind in ("tells", "chats") and (steps or not is_last):
                told.append(sentence)
                continue
            if any(map(_looks_up, steps)) and notes_what_is_found(text):
                steps.append(Step(text, notes_found=True))
                continue
            refers = phrases.SAME_DAY.search(text) or phrases.IN_PLACE.search(text) or POINTS_BACK.match(text)
            around = [*sentences[:place], *told] if refers else told
            step = self._step(sentence, _context(around), before, earlier)
            likely = step.found is not None and step.found.coverage >= _LIKELY
            asks = sentence.kind == "asks" or (sentence.kind == "names" and not sentence.follows_chat)
            if step.is_sure or likely or needs_of_words(text) or (is_last and asks):
                steps.append(step)
            else:
                told.append(sentence)
                missed += [step] if sentence.kind == "asks" and is_request(text) else []
        if steps or not sentences:
            told_of = missed if any(step.is_sure for step in steps) else []
            return [*steps, *(replace(step, says=NOT_ANSWERED.format(step.text)) for step in told_of)]
        by_kind = sorted(sentences, key=lambda each: _TO_ANSWER.index(each.kind))
        asked = [each for each in sentences if each.kind == by_kind[0].kind][-1]
        return [self._step(asked, _context(sentences), before, earlier)]

    @property
    def _asked_days(self) -> AskedDays:
        return AskedDays(self.data, self.now or dt.datetime.combine(self.today, dt.time()))

    def _changes(self, before: Sequence[Made], earlier: Sequence[Made]) -> Changes:
        return Changes(self.data, self.today, before, earlier, self.said_before)

    def _step(
        self, sentence: Sentence, context: str, before: Sequence[Made], earlier: Sequence[Made]
    ) -> Step:
        text = sentence.text
        step = Step(text)
        answered = partial(_stated, before, self.today)
        if notes_what_was_said(text, answered) and (answer := answered()):
            return replace(step, calls=[("create_note", {"text": answer})])
        text_of_note = dictated_note(text)
        if text_of_note is None:
            text_of_note = note_that_was_said(text)
        if text_of_note is not None:
            return replace(
                step,
                calls=[("create_note", {"text": text_of_note})] if text_of_note else (),
                says="" if text_of_note else WHICH_TEXT,
            )
        changes = self._changes(before, earlier).wanted(text, context)
        if changes is not None:
            return _answered(step, changes)
        clauses = re.split("[,:] ", text)
        for part in (text, *(clauses if phrases.STATEMENT.match(text) else clauses[-1:])):
            if needs_of_words(part):
                return Step(part)
        day_before = next(iter(days_of(before)), "")
        said_day = first_day(context, self.today)
        asked = f"{context} {text}" if POINTS_BACK.match(text) else text
        events = wanted_events(asked, self.today, said_day=said_day, day_before=day_before)
        if events == NOT_ASKED and phrases.IF.search(text) and (day := first_day(text, self.today)):
            return replace(step, says=DEPENDS, calls=[("list_events", {"date": day})])
        if events is None and POINTS_BACK.match(text) and phrases.MY_CALENDAR.search(text):
            events = WHAT_TO_WRITE
        if events is not None:
            return _answered(step, events)
        if phrases.WHATS_NEW.match(text):
            return replace(step, calls=[_LISTS["mail"], ("list_events", {"date": "today"})])
        if date := self._asked_days.date(text):
            return replace(step, says=date)
        if phrases.CANNOT.match(text):
            return step
        shown = before[-1] if before else None
        is_place = PLACE.search(text) and not content_words(PLACE.sub(" ", text))
        if is_place and shown and shown.name == "list_events" and not kinds_in(text):
            return replace(step, calls=[("list_events", shown.arguments)])
        kinds = kinds_in(text)
        if sentence.kind in ("tells", "chats"):
            calls = self._named_source(text) if phrases.ONE_TEXT.search(text) else []
            return replace(step, calls=[call for call in calls if call[0] in READERS.values()])
        if phrases.CALENDAR.search(text) and phrases.PRONOUN.search(text):
            event = event_spoken_of(before, self.data, self.today)
            if event:
                return replace(step, calls=[("list_events", {"date": f"{event.date}"})])
        mails = [mail.id for mail in reversed(self.data.mail.all())]
        of_kinds = [TEXT_TOOLS[kind].read for kind in kinds or kinds_in(context)]
        if (call := referred(text, before, earlier, mails)) and (not of_kinds or call[0] in of_kinds):
            return replace(step, calls=[call])
        if (cities := self._cities(text, context, before or earlier[-1:])) is not None:
            return _weather(step, cities, self.today)
        if phrases.WEB.search(text):
            query = " ".join(word for word in content_words(text) if word not in phrases.WEB_WORDS)
            calls = [("search_web", {"query": query})] if query and self.has_web else []
            return replace(step, calls=calls, says="" if self.has_web else NO_WEB)
        if "mail" in kinds and not content_words(text):
            text = phrases.PERSON.sub(self._sender_spoken_of(before), text)
        if kinds:
            topic = _topic(before) or " ".join(content_words(self.said_before))
            text = phrases.ABOUT_IT.sub(f"about {topic}", text)
        calls = self._named_source(text, context)
        if not calls and not kinds and phrases.PRONOUN.search(text):
            calls = self._named_source(context if content_words(context) else f"{text} {context}")
        if calls:
            return replace(step, calls=calls)
        that_day = not before and phrases.SAME_DAY.search(text)
        if calls := self._asked_days.calls(sentence, said_day, earlier[-1:] if that_day else before):
            return replace(step, calls=calls)
        return self._text(step, sentence, context, before)

    def with_text(self, step: Step) -> Step:
        """Return ``step`` with the text that it is probably about, if there is one."""
        if step.found is None or step.found.coverage < _LIKELY:
            return replace(step, found=None)
        return replace(step, calls=[step.found.call], is_closest=True)

    def for_need(self, step: Step, need: Need) -> Step:
        """Return ``step`` with the calls for something of which only the kind is known."""
        if need == "weather":
            return _weather(step, _cities_in(step.text), self.today)
        call: Call
        if need == "notes" or need == "mail" or need == "files":
            words = " ".join(content_words(step.text)) or step.text
            call = step.found.call if step.found else (TEXT_TOOLS[need].search, {"query": words})
            step = replace(step, is_closest=step.found is not None)
        elif need == "calendar":
            days = days_in(step.text, self.today)
            subject = [word for word in content_words(step.text) if not phrases.CALENDAR.fullmatch(word)]
            if subject and not days and phrases.CERTAIN.match(step.text):  # no event has these words
                return replace(step, found=None)
            call = "list_events", {"date": days[0].said if days else "today"}
        elif need == "web" and self.has_web:
            call = "search_web", {"query": step.text}
        else:
            return replace(step, found=None)
        return replace(step, calls=[*step.calls, call])

    def _cities(self, text: str, context: str, before: Sequence[Made]) -> list[str] | None:
        """Return the cities whose weather is asked for; None if no weather is."""
        weather = any(call.name == "get_weather" for call in before)
        follows = weather and phrases.FOLLOWS.match(text)
        cities = _cities_in(text)
        last = before[-1] if before and phrases.THERE.search(text) else None
        there = [str(last.arguments["city"])] if last and weather else _names_in(last.result) if last else []
        if phrases.WEATHER.search(text) or (
            phrases.PERHAPS_WEATHER.search(text) and (_names_in(text) or there)
        ):
            return cities or there[:1] or _names_in(context)
        if follows and not days_in(text, self.today):
            rest = phrases.FOLLOWING.sub("", text).strip(" ?!.,")
            return cities or ([rest] if len(rest.split()) <= _FEW_WORDS else None)
        return None

    def _named_source(self, text: str, context: str = "") -> list[Call]:
        """Return the call for a text whose kind or path is named; ``context`` may say what it is about."""
        if named := phrases.ID.search(text):
            name = named[0].casefold()
            return [("read_note" if name.startswith("n") else "read_mail", {"id": name})]
        for path in self.data.files.all():
            if path.casefold() in text.casefold():
                return [("read_file", {"path": path})]
        kinds = kinds_in(text)
        halves = [half for half in phrases.HALVES.split(text) if kinds_in(half)]
        if len(kinds) > 1 and len(halves) > 1:
            calls = [call for half in halves for call in self._named_source(half)]
            if calls:
                return calls
        if not kinds:
            return []
        words = [word for word in content_words(text) if not phrases.LISTED.fullmatch(word)]
        if phrases.FOLDER.search(text) and words:
            return [("search_files", {"query": " ".join(words)})]
        if words and phrases.ANY.match(text) and not (phrases.ACCORDING.search(text) or _SAYS.search(text)):
            return [(TEXT_TOOLS[kinds[0]].search, {"query": " ".join(words)})]
        if not words and phrases.LISTED.search(text) and kinds[0] in _LISTS:
            mails = self.data.mail.all()
            reads = phrases.READ.search(text) and phrases.NEWEST.search(text)
            if kinds[0] == "mail" and mails and (reads or phrases.THE_NEWEST.search(text)):
                return [("read_mail", {"id": mails[-1].id})]
            return [_LISTS[kinds[0]]]
        if context and not any(retrieve([word], self.data, kinds) for word in words):
            words = [*content_words(context), *words]
        if kinds == ["mail"] and self._have_written(words):
            return [("search_mail", {"query": " ".join(words)})]
        if several := self._several(text, kinds):
            return several
        found = retrieve(words, self.data, kinds)
        if found and found.coverage >= _LIKELY and not found.is_by_chance(words):
            return [found.call]
        missing = [word for word in words if not retrieve([word], self.data, kinds)]
        query = {"query": " ".join(missing or words)}
        return [(TEXT_TOOLS[kind].search, query) for kind in kinds] if words else []

    def _sender_spoken_of(self, before: Sequence[Made]) -> str:
        """Return who has sent mail and was spoken of last, alone; else nothing."""
        said = {*_NAME.findall(" ".join([self.said_before, *(call.result for call in before)]).casefold())}
        senders = {mail.sender for mail in self.data.mail.all()}
        found = [sender for sender in senders if said.intersection(_NAME.findall(sender.casefold()))]
        return found[0] if len(found) == 1 else ""

    def _have_written(self, words: Sequence[str]) -> bool:
        """Return whether ``words`` are a name that several senders have."""
        senders = {mail.sender for mail in self.data.mail.all()}
        named = [each for each in senders if words and {*words} <= {*_NAME.findall(each.casefold())}]
        return len(named) > 1

    def _several(self, text: str, kinds: Sequence[TextKind]) -> list[Call]:
        """Return the calls that read what the parts of ``text`` name, if that are several."""
        halves = [(half, content_words(half)) for half in phrases.HALVES.split(text)]
        places = [
            retrieve(words, self.data, kinds)
            for half, words in halves
            if len(words) > 1 or (words and re.search(r"\b(?:the|my) ", half))
        ]
        sure = [place for place in places if place and place.coverage >= _SURE]
        return [place.call for place in sure] if len({place.name for place in sure}) > 1 else []

    def _text(self, step: Step, sentence: Sentence, context: str, before: Sequence[Made]) -> Step:
        """Return the step with the text that the request is about, if it has one."""
        own = content_words(step.text)
        read = [call for call in before if call.has_text]
        near = {str(value) for call in read for value in call.arguments.values()}
        asks = sentence.kind == "asks"
        told = asks and kinds_in(context)
        if told:
            found = retrieve([*own, *content_words(context)], self.data, told, near)
        else:
            found = self._asked_days.text(own, near)
        if phrases.OPENS.match(step.text) and (not found or found.coverage < _CERTAIN):
            return step
        if (found is None or found.coverage < _LIKELY) and context and asks:
            found = retrieve([*own, *content_words(context)], self.data, KINDS, near) or found
        if found and found.is_by_chance(own) and found.name not in near:
            found = None
        if sentence.kind == "names" and own and not (found and _has_most(found, own, sentence)):
            found, read = None, []
        least = _CERTAIN if asks and phrases.PRONOUN.search(step.text) else _LIKELY
        looks_for_another = phrases.FINDS.match(step.text) and own
        if (found is None or found.coverage < least) and read and not looks_for_another:
            return replace(step, calls=[(read[-1].name, read[-1].arguments)])
        if several := self._several(step.text, KINDS):
            return replace(step, calls=several)
        if found and found.coverage >= _SURE:
            is_near = found.name in near or not own
            return replace(step, calls=[found.call], is_closest=not (is_near or found.is_sure(own)))
        return replace(step, found=found)


def _written(before: Sequence[Made], earlier: Sequence[Made], today: dt.date) -> str:
    """Return what was written for the message before, or was last, as it was stated; or that nothing was."""
    now, then = ([call for call in calls if call.name not in LOOKS_UP] for calls in (before, earlier))
    if now:
        return f"{'No' if now[-1].failed else 'Yes'}. {state(now[-1], today)}"
    last = f" Before that: {state(then[-1], today)}" if then else ""
    return f"For your last message nothing was written.{last}"


def _topic(before: Sequence[Made]) -> str:
    """Return the title of the one thing that was shown last; empty if there is none."""
    found: Any = None
    with suppress(ValueError):  # a page of the web is no JSON
        found = json.loads(before[-1].result) if before else None
    one = found[0] if isinstance(found, list) and len(found) == 1 else found
    return str(one.get("title") or one.get("subject") or "") if isinstance(one, dict) else ""


def _has_most(found: Found, words: Sequence[str], sentence: Sentence) -> bool:
    """Return whether a text has so many ``words`` of what a sentence names that it is hardly by chance."""
    return len(found.words) >= (min(2, len(words)) if sentence.is_doubtful else (len(words) + 1) // 2)


def _context(sentences: Sequence[Sentence]) -> str:
    """Return what is said in ``sentences``, small talk aside."""
    return " ".join(each.text for each in sentences if each.kind != "chats")


def _looks_up(step: Step) -> bool:
    return any(name in LOOKS_UP for name, _ in step.calls)


def _answered(step: Step, found: Sequence[Call] | str) -> Step:
    return replace(step, says=found) if isinstance(found, str) else replace(step, calls=found)


def _stated(before: Sequence[Made], today: dt.date) -> str:
    """Return what was found for the last message, as it was stated."""
    return "\n".join(state(call, today) for call in before if not call.failed)


def _weather(step: Step, cities: Sequence[str], today: dt.date) -> Step:
    """Return ``step`` with the calls for the weather in ``cities``, or asking for one."""
    calls = [("get_weather", {"city": city}) for city in cities]
    later = any(day.first > today for day in days_in(step.text, today))
    says = (ONLY_NOW if later else "") if calls else WHICH_CITY
    return replace(step, calls=[*step.calls, *calls], says=says)


def _cities_in(text: str) -> list[str]:
    """Return the cities in a question about the weather, which may be written small."""
    return _names_in(text) or [
        city
        for found in phrases.SMALL_CITIES.finditer(text)
        for each in re.split(r",| and | or ", next(filter(None, found.groups())))
        if (city := " ".join(takewhile(lambda word: word not in phrases.NO_CITY, each.split())))
    ]


def _names_in(text: str) -> list[str]:
    names = [
        re.sub(r"^\w+'s (?=[A-Z])", "", next(filter(None, match))).removesuffix("'s")
        for match in phrases.CITIES.findall(text)
    ]
    return list(dict.fromkeys(name for name in names if name.casefold() not in phrases.NO_CITY))
