"""Intent classification: what one message of the user needs, as a small model tells from examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, ValidationError

from .phrases import POLITE

_Told: TypeAlias = Literal["notes", "calendar", "mail", "files", "weather", "web", "talk", "impossible"]
"""What a model tells."""
Need: TypeAlias = Literal[_Told, "clock", "abilities"]

_PROMPT: Final = """\
Say what the user's message needs: notes (find, list, read or write the user's notes), calendar (see or \
add events), mail (find or read mail), files (find or read files), weather (the weather somewhere), web \
(search the web), talk (small talk or general knowledge) or impossible (something to be done that none of \
these can do, such as to send, delete, move, order, book, pay, call, remind or switch something). Answer in \
JSON."""
_EXAMPLES: Final = """\
hi there -> talk
what's the plan for Monday? -> calendar
Do I need an umbrella in Rome? -> weather
find my note with the wifi password -> notes
any mail from the bank? -> mail
thank you very much -> talk
write down that the rent is due on the 5th -> notes
delete the note about the rent -> impossible
what does report.txt say? -> files
is there something on the internet about sourdough? -> web
put lunch with Ben on Thursday at 12 -> calendar
what is the capital of France? -> talk
how warm is it in Paris, and what is on today? -> weather calendar
who wrote to me today? -> mail
send a message to Tom -> impossible
what can you do for me? -> talk
what did I write about the bike? -> notes
order a pizza -> impossible
open the document about the garden -> files
am I free on Saturday afternoon? -> calendar
cancel the lunch with Ben -> impossible
tell me something funny -> talk
read the mail about the invoice -> mail
answer the mail from Lisa -> impossible
list all my notes -> notes
look up train times online -> web
wake me at seven -> impossible
when is the meeting with Lisa? -> calendar
why do leaves fall in autumn? -> talk
ring the dentist -> impossible
what did Paul say about the party? -> mail
who are you? -> talk
ok, bye -> talk"""
_DEED: Final = re.compile(
    rf"{POLITE}(?!remind (?:me|us)(?: again)?[,:])(?!remind (?:me|us) (?:again )?(?:what|how|who|whom"
    rf"|whose|when|where|which|why|of|about)\b)(?:"
    r"(?:send|forward|reply|respond|delet|remov|eras|mov|shift|renam|cancel|cancl|order|reserv|pay|play"
    r"|switch|remind"
    r"|mark|chang|edit|updat|print|post|download|install|upload|translat|transfer|buy|lock|unlock|restart"
    r"|push|postpon|reschedul)(?:e|ing)?"
    r"|(?:text|ring|call|phone|message|e-?mail) .{2,30} (?:and|to) (?:say|tell|ask|let)"
    r"|fwd|transcrib(?:e|ing)|write back|alarm(?= .*\d)|record (?!this|that|it)|answer (?:the|that|this"
    r"|him|her|them|it)|get rid of|throw|ring"
    r"|book (?:an?|the|us|me(?! in)|my|two|\d+|some|tickets?|flights?|rooms?|uber|taxi|cab|hotel)"
    r"|(?:call|phone|text)(?: up)? (?:an?|the|my|him|her|(?-i:[A-Z]\w+)|\w+ that)"
    r"|(?:telephone|ring up|dial|purchase|dim|brighten|airdrop|snooze|mute|unmute)"
    r"|take an? (?:screen ?shot|photo|picture|selfie)|make (?:it|my \w+) ring"
    r"|(?:put|throw|chuck|toss) .+ (?:in|into) the (?:bin|trash)|turn (?:up|down|on|off)"
    r"|give .{1,30} an? (?:ring|call|buzz)|tell (?:him|her|them)"
    r"|turn (?:.{0,30} )?(?:on|off|up|down)|let (?:him|her|them|(?-i:[A-Z]\w+)) know"
    r"|get (?:us|me) (?:an?|some) (?:table|taxi|cab|tickets?)"
    r"|wake me|(?:set|start|give me) (?:an?|the|my)\b.*\b(?:alarm|timer|reminder|beep)|you have to wake"
    r"|answer to|(?:fire|ping|shoot|drop) (?:off )?(?:an? |him |her |them |the "
    r"|\w+ an? )(?:\w+ )?(?:e-?mail|mail"
    r"|message|line|text)"
    r"|run off .*\b(?:cop(?:y|ies)|printer)|(?:stick|put|throw) on (?:a bit of |some |the )"
    r"|get (?:me |us )?(?:an? |some )?(?:taxi|cab|table|tickets?|flights?|hotel)\b"
    r"|(?:append|attach)|(?:at least |just )?(?:text|phone|ring|call|e-?mail|message|whatsapp) (?:him|her"
    r"|them|(?-i:[A-Z]\w+))|mail (?-i:[A-Z]\w+) (?!from|about)\w+|(?:venmo|paypal|pay|wire)"
    r"|get .+ on the phone|(?:tack|stick|tag"
    r"|squeeze) .+ (?:onto|on to|to the end of|at the end of)"
    r"|(?:write(?! down)|put|insert|include|add) .+ (?:in|into|onto|to|on"
    r"|under) (?:the|my|that) (?:existing )?(?:\w+ ){0,2}(?:note|list|recipe|file)"
    r"|(?:wipe|erase|clear|empty|bin|delete|scrap) (?:out )?(?:all|every\w*|each|my entire|the (?:whole"
    r"|entire))"
    r"|(?:bin|wipe|scrap|ditch|erase|throw away|chuck|trash|toss|kill) .*\b(?:mails?|e-?mails?|files?"
    r"|inbox)\b"
    r"|write (?:an? )?(?:e-?mail|message)|e-?mail (?!from|about)|add .+ to (?:the|my) .*(?:note|list))\b"
    r"|.*\b(?:mails?|e-?mails?|files?|inbox|mailbox|messages?)\b.*\b(?:can|may|should|must) (?:go"
    r"|be (?:erased"
    r"|deleted|removed|binned|thrown))"
    r"|in (?:my |the |that )?.{0,30}\b(?:note|list|recipe|file)\b.{0,40}\b(?:change|chg|replace|correct"
    r"|edit|fix"
    r"|amend|update)\b"
    r"|.*\b(?:mails?|e-?mails?|files?)\b.*\b(?:delete|erase|remove|bin|trash) (?:it|that)\b"
    r"|.*\btransfer\b.*\b(?:euros?|pounds?|dollars?|bucks|money)\b"
    r"|answer .{1,30} by (?:e-?mail|mail)\b|set the (?:heating|thermostat|lights?|volume|oven)\b"
    r"|.*\bget rid of (?:the|that|this) (?:files?|mails?|e-?mails?)\b|.*\blights? (?:on|off)\b"
    r"|.*\b(?:start|set) a timer\b|.*\bgive me a beep\b"
    r"|(?:can|could) .+ be (?:printed|sent|deleted|moved|cancelled|ordered|booked)\b",
    re.IGNORECASE,
)
"""How a message begins that wants what no tool can do: a model takes it for what its nouns say."""
_CLOCK: Final = re.compile(
    rf"{POLITE}(?:tell me )?(?:what'?s |what is )?today'?s date\b"
    rf"|{POLITE}is it (?:already )?(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: already| today)?\W*$"
    r"|(?:what(?:'?s| is)?|which|got|have you got|do you have|tell me) (?:the )?"
    r"(?:time|day(?: of the week)?|date|month|year)"
    r"(?: is it| it is| is today| do we have| are we in)?(?: today| now| lol)?\W*$",
    re.IGNORECASE,
)
_ABILITIES: Final = re.compile(
    r"(?:what|which)\b.* can (?:you|i) (?:do|ask|help)\b"
    r"|(?:what|.*in (?:what|which) ways?) (?:you )?are (?:you )?able\b"
    r"|(?:would|are) you (?:be )?able to\b|how can you help\b",
    re.IGNORECASE,
)
_FOLLOW_UP: Final = re.compile(
    r"^(?:and|or|what about|how about|also|then|another|again)\b"
    r"|\b(?:it|that|this|them|those|one|first|last)\b",
    re.IGNORECASE,
)
_LONG: Final = 400
"""Characters of a message behind which there is a text."""


class _Needs(BaseModel):
    needs: list[_Told] = Field(min_length=1, max_length=2)


_SCHEMA: Final = {"name": "needs", "schema": _Needs.model_json_schema()}


def needs_of_words(message: str) -> list[Need]:
    """Return what ``message`` needs where its words say so; nothing where a model has to tell."""
    patterns: Mapping[Need, re.Pattern[str]] = {"impossible": _DEED, "clock": _CLOCK, "abilities": _ABILITIES}
    return [need for need, pattern in patterns.items() if pattern.match(message)][:1]


async def needs_of(model: BaseChatModel, message: str, before: str = "") -> list[Need]:
    """Return what the user's ``message`` needs, which may follow up the message ``before``."""
    if found := needs_of_words(message):
        return found
    if len(message) > _LONG:  # it brings what it asks about
        return ["talk"]
    messages: list[BaseMessage] = [SystemMessage(_PROMPT)]
    for line in _EXAMPLES.splitlines():
        said, _, needs = line.partition(" -> ")
        messages += [HumanMessage(said), AIMessage(json.dumps({"needs": needs.split()}))]
    if before and _FOLLOW_UP.search(message):
        earlier = await needs_of(model, before)
        messages += [HumanMessage(before), AIMessage(json.dumps({"needs": earlier}))]
    answer = await model.ainvoke(
        [*messages, HumanMessage(message)],
        {"callbacks": []},  # which would show it as an answer
        response_format={"type": "json_schema", "json_schema": _SCHEMA},
        max_tokens=48,
    )
    try:
        return list(dict.fromkeys(_Needs.model_validate_json(answer.text).needs))
    except ValidationError:  # it was cut off
        return ["talk"]
