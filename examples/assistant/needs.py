"""Intent classification: what one message of the user needs, as a small model tells from examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, ValidationError

from .phrases import POLITE, QUESTION_WORDS, any_case, one_of

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
_DEED: Final = any_case(
    rf"{POLITE}(?!remind (?:me|us)(?: again)?(?:[,:]| (?:{QUESTION_WORDS}|of|about)\b))"
    + one_of(
        r"""
        (?:send|forward|reply|respond|delet|remov|eras|mov|shift|renam|cancel|order|reserv|pay)(?:e|ing)?
        (?:remind|mark|chang|edit|updat|print|post|download|install|upload|translat|transfer)(?:e|ing)?, buy
        (?:unlock|lock|play|switch|restart|push|postpon|reschedul|transcrib|append|attach|purchas)(?:e|ing)?
        fwd, write (?:\w+ )?back, throw, ring, telephone, dial, dim, brighten, airdrop, snooze, mute, unmute
        get rid of, venmo, paypal, wire, wake me, you have to wake, alarm(?= .*\d), record (?!this|that|it)
        answer (?:to|the|that|this|him|her|them|it), answer .{1,30} by (?:e-?mail|mail)
        (?:text|call|phone|message|e-?mail) .{2,30} (?:and|to) (?:say|tell|ask|let), e-?mail (?!from|about)
        (?:at least )?(?:call|phone|text|message|whatsapp)(?: up)?(?: for me)? (?:an?|the|my|him|her|them)
        (?:at least )?(?:call|phone|text|message|whatsapp)(?: up)? (?:(?-i:[A-Z]\w+)|\w+ that)
        mail (?-i:[A-Z]\w+) (?!from|about)\w+, write (?:an? )?(?:e-?mail|message)
        (?:fire|ping|shoot|drop) (?:off )?(?:\w+ ){1,3}(?:e-?mail|mail|message|line|text)
        give .{1,30} an? (?:ring|call|buzz), let (?:him|her|them|(?-i:[A-Z]\w+)) know
        (?:tell|ask|thank|invite) (?:him|her|them|my \w+|(?!God)(?-i:[A-Z]\w+)), call off, get .+ on the phone
        (?:shar|encrypt|decrypt|draft|compos|restor|empty|zip)(?:e|ing)? (?:an?|the|my|this|that|it)
        accept, decline, undo, (?:un)?subscribe, navigate, facetime, back up (?:all|the|my)
        check (?:me|us) in
        copy .+ to (?:my|the) (?:clipboard|desktop|phone), make (?:it|the \w+) (?:\w+er)
        (?:create|make|start) (?:an?|the) (?:new )?(?:file|folder|document|spreadsheet|playlist|account|group)
        get (?:me |us )?(?:an? |some )?(?:taxi|cab|table|tickets?|flights?|hotel)
        book (?:an?|the|us|me(?! in)|my|two|\d+|some|flights?|rooms?|uber|taxi|cab|hotel)
        take an? (?:screen ?shot|photo|picture|selfie), make (?:it|my \w+) ring, give me a beep
        (?:set|start|give me) (?:an?|the|my)\b.*\b(?:alarm|timer|reminder|beep)
        set the (?:heating|thermostat|lights?|volume|oven), turn (?:.{0,30} )?(?:on|off|up|down)
        (?:stick|put|throw) on (?:a bit of |some |the ), run off .*\b(?:cop(?:y|ies)|printer)
        (?:put|throw|chuck|toss) .+ (?:in|into) the (?:bin|trash)
        (?:tack|stick|tag|squeeze) .+ (?:onto|on to|to the end of|at the end of)
        (?:put|add) .+ (?:in|on|under|(?:in|on)?to) (?:the|my|that) [\w' ]*(?:note|list|recipe|file)
        (?:insert|include|write)(?! down) .+ (?:in|on|under|(?:in|on)?to) (?:the|my|that) [\w' ]*(?:note|list)
        (?:wipe|erase|clear|empty|bin|delete|scrap) (?:out )?(?:all|every\w*|each|(?:my|the) (?:whole|entire))
        (?:bin|wipe|scrap|ditch|erase|throw away|chuck|trash|toss|kill) .*\b(?:mails?|e-?mails?|files?|inbox)
        """
    )
    + r"\b|"
    + one_of(
        r"""
        .*\b(?:e?-?mails?|files?|inbox|mailbox|messages?)\b.*\b(?:can|may|should|must) (?:go|be \w+(?:ed|wn))
        in (?:my |the |that )?.{0,30}\b(?:note|list|recipe|file)\b.{0,40}\b(?:change|chg|replace|correct|fix)
        .*\b(?:mails?|e-?mails?|files?)\b.*\b(?:delete|erase|remove|bin|trash) (?:it|that)
        .*\btransfer\b.*\b(?:euros?|pounds?|dollars?|bucks|money), .*\blights? (?:on|off)
        .*\bget rid of (?:the|that|this) (?:files?|e?-?mails?), .*\b(?:start|set) a timer, .*\bgive me a beep
        (?:can|could) .+ be (?:printed|sent|deleted|moved|cancelled|ordered|booked)
        """
    )
    + r"\b"
)
"""How a message begins that wants what no tool can do: a model takes it for what its nouns say."""
_CLOCK: Final = any_case(
    rf"{POLITE}(?:tell me )?(?:what'?s |what is )?today'?s date\b|{POLITE}is it (?:already )?(?:mon|tues"
    rf"|wednes|thurs|fri|satur|sun)day(?: already| today)?\W*$|(?:what(?:'?s| is)?|which|got|have you got"
    rf"|do you have|tell me) (?:the )?(?:time|day(?: of the week)?|date|month|year)(?: is it| it is| is today"
    rf"| do we have| are we in)?(?: today| now| lol)?\W*$"
)
_ABILITIES: Final = any_case(
    r"(?:what|which)\b.* can (?:you|i) (?:do|ask|help)\b|(?:what|.*in (?:what|which) ways?) (?:you )?are "
    r"(?:you )?able\b|(?:would|are) you (?:be )?able to\b|how can you help\b"
)
_FOLLOW_UP: Final = any_case(
    r"^(?:and|or|what about|how about|also|then|another|again)\b"
    r"|\b(?:it|that|this|them|those|one|first|last)\b"
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
