"""What came while the user was away: new mail, and events that begin soon. Each is told once.

It is looked for in the background, and told only where nobody types. What a model writes about it has the
priority PROACTIVE: a question that is asked meanwhile is answered first.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, Protocol, TypeAlias

import anyio.to_thread
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from agentrt import Priority, priority
from agentrt.errors import AgentRTError
from agentrt.examples.assistant.calendar import Event
from agentrt.examples.assistant.checked_model import CheckedModel
from agentrt.examples.assistant.checks import claims_deed, is_grounded, sentences
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.mail import Mail
from agentrt.examples.assistant.results import Made
from agentrt.examples.assistant.texts import fingerprint

from .conversation import Conversation

LOOK_EVERY_S: Final = 60.0
"""Seconds after which an open conversation looks again; it also does behind each answer."""
MOST_TOKENS: Final = 64
"""Of a sentence about a mail."""
_SOON: Final = dt.timedelta(hours=1)
_MOST_NAMED: Final = 5
_MOST_DESCRIBED: Final = 3
_MOST_CHARACTERS: Final = 1000
"""Of a mail that is described."""
_MOST_KNOWN: Final = 10_000
_PROMPT: Final = "Say in one short sentence what the user's mail says. Say nothing else."

Show: TypeAlias = Callable[[str], Awaitable[bool]]
"""Shows a text to the user; returns False if it cannot now, such as while the user types."""


class KeepsKnown(Protocol):
    """Keeps fingerprints of what the user knows of some data beyond the process. Called on other threads."""

    def load(self) -> list[str] | None:
        """Return what was kept last; None if nothing ever was, or it cannot be read."""

    def save(self, known: Sequence[str]) -> None:
        """Replace what is kept. Raises nothing."""


@dataclass(frozen=True)
class News:
    """What the user does not know yet."""

    mails: Sequence[Mail]
    """The newest first."""
    events: Sequence[Event]
    known: Sequence[str]
    """Fingerprints of what the user knows, the latest mail last."""
    seen: Sequence[str]
    """Fingerprints of all that there is: what the user knows once this was told."""

    def text(self, described: Mapping[str, str]) -> str:
        """Return it in fixed words, with sentences about some mails, by their ids."""
        lines = []
        if self.mails:
            count = f"{len(self.mails)} new mail{'s' * (len(self.mails) > 1)}."
            latest = " The latest:" * (len(self.mails) > _MOST_NAMED)
            named = [f"{mail.sender}: {mail.subject}" for mail in self.mails[:_MOST_NAMED]]
            lines.append(f"While you were away: {count}{latest} {'; '.join(named)}.")
            about = [(mail.subject, described.get(mail.id)) for mail in self.mails[:_MOST_DESCRIBED]]
            lines += [f"{subject}: {sentence}" for subject, sentence in about if sentence]
        if self.events:
            named = [f"{each.time} {each.title}{each.place and f' ({each.place})'}" for each in self.events]
            lines.append(f"Begins soon: {'; '.join(named)}.")
        return "\n".join(lines)

    def calls(self) -> list[Made]:
        """Return the calls that would have found what is named, mails last."""
        events = [{name: value for name, value in asdict(each).items() if value} for each in self.events]
        mails = [
            {"id": mail.id, "from": mail.sender, "subject": mail.subject} for mail in self.mails[:_MOST_NAMED]
        ]
        made = [("list_events", {"date": "today"}, events), ("search_mail", {"query": "new mail"}, mails)]
        return [
            Made(name, given, json.dumps(found, ensure_ascii=False)) for name, given, found in made if found
        ]


class Away:
    """Looks for what is new in some data, for one conversation."""

    def __init__(
        self,
        data: PersonalData,
        kept: KeepsKnown,
        model: BaseChatModel | None = None,
        now: Callable[[], dt.datetime] = dt.datetime.now,
    ) -> None:
        """``model`` describes mails; without one they are only named. ``now`` returns the local time."""
        self._data = data
        self._kept = kept
        self._model = model
        self._now = now
        self._known: Sequence[str] | None = None
        self._described: dict[str, str] = {}
        self._problem = ""
        self._again = asyncio.Event()

    def look_again(self) -> None:
        """Look now: something may have come meanwhile, or an answer has shown it."""
        self._again.set()

    async def watch(self, conversation: Conversation, show: Show) -> None:
        """Tell what is new, once ``show`` can, in ``conversation``, until cancelled.

        Data that is looked at for the first time has nothing new.

        Raises:
            ConfigurationError: the data has too many files by now.
        """
        while True:
            self._again.clear()
            last = conversation.last
            news = await anyio.to_thread.run_sync(self._look, last[1] if last else "", abandon_on_cancel=True)
            if news.known != self._known:
                await self._keep(news.known)
            if news.mails or news.events:
                await self._describe(news.mails[:_MOST_DESCRIBED])
                text = news.text(self._described)
                # An answer that was given meanwhile may have shown it.
                if not self._again.is_set() and await show(text + self._problem):
                    self._problem = ""
                    conversation.tell(text, news.calls())
                    await self._keep(_merged(news.known, news.seen))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._again.wait()

    def _look(self, said: str) -> News:
        """Return what is new now, and was not just ``said``."""
        now = self._now()
        with self._data.sources.seen_once():
            mails = self._data.mail.by_fingerprint()
            unread = {mail.id for mail in self._data.mail.unread()}
            soon = {fingerprint((f"{now:%Y-%m-%d}", each.time, each.title)): each for each in self._soon(now)}
        seen = [*mails, *soon]
        known = self._kept.load() if self._known is None else self._known
        if known is None:
            known = seen[-_MOST_KNOWN:]
        of_known = set(known)
        # What is older than all that is known is not new: not all of it is kept, nor mirrored from a server.
        oldest = next((at for at, each in enumerate(mails) if each in of_known), 0)
        new_mails = {
            each: mail
            for each, mail in list(mails.items())[oldest:]
            if each not in of_known and mail.id in unread
        }
        new_events = {each: event for each, event in soon.items() if each not in of_known}
        shown = [each for each, mail in new_mails.items() if f"{mail.sender}, {mail.subject}" in said]
        shown += [each for each, one in new_events.items() if one.time in said and one.title in said]
        return News(
            [mail for each, mail in reversed(new_mails.items()) if each not in shown],
            [event for each, event in new_events.items() if each not in shown],
            _merged(known, shown) if shown else known,
            seen,
        )

    def _soon(self, now: dt.datetime) -> list[Event]:
        """Return the events of today that begin in the next hour."""
        last = now + _SOON
        until = f"{last:%H:%M}" if last.date() == now.date() else "24:00"
        today = self._data.calendar.events_on(f"{now:%Y-%m-%d}")
        return [event for event in today if f"{now:%H:%M}" <= event.time <= until]

    async def _describe(self, mails: Sequence[Mail]) -> None:
        """Have the model describe ``mails``, each once. One that fails is not asked again."""
        try:
            for mail in mails:
                if self._model is not None and mail.id not in self._described:
                    self._described[mail.id] = await describe(self._model, mail)
        except AgentRTError as error:
            self._model = None
            self._problem = f"\nNew mails are only named from now on: {error}"

    async def _keep(self, known: Sequence[str]) -> None:
        self._known = known
        await asyncio.to_thread(self._kept.save, known)  # which ends although this may be cancelled


async def describe(model: BaseChatModel, mail: Mail) -> str:
    """Return a sentence about ``mail``, written in the background.

    It is empty if the sentence has a number or a name that is not in the mail, or no end.
    """
    text = f"From {mail.sender}: {mail.subject}\n{mail.body[:_MOST_CHARACTERS]}"

    def may_say(sentence: str) -> bool:
        return not claims_deed(sentence, (), looked=True) and is_grounded(sentence, text)

    checked = CheckedModel(model=model, may_say=may_say, otherwise="")
    with priority(Priority.PROACTIVE):
        answer = await checked.ainvoke([SystemMessage(_PROMPT), HumanMessage(text)], {"callbacks": []})
    first = "".join(sentences(answer.text.strip())[:1]).strip()
    return first if first.endswith((".", "!", "?")) else ""


def _merged(known: Sequence[str], seen: Sequence[str]) -> list[str]:
    """Return what is known or seen, the latter last, as many as are kept."""
    new = set(seen)
    return [*(each for each in known if each not in new), *seen][-_MOST_KNOWN:]
