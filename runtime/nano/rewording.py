"""Wordings beyond the families' own lines: other sentence shapes, and unknown words in familiar ones.

People ask in more ways than any list holds. These keep the model from leaning on one verb or one order of
words, so that an unknown verb beside "notes" still means the notes.
"""

from __future__ import annotations

import re
from random import Random

from .vocabulary import Vocabulary

OTHER_SHAPES: dict[str, tuple[str, ...]] = {
    "search_notes": (
        "{topic}: [anything|something] in my notes?",
        "my notes [on|about] {topic}[, please|]",
        "[anything|something] [on|about] {topic} in [the|my] notes?",
        "I [am looking|look|was looking] for [a note|notes|my notes] [about|on] {topic}",
        "I [need|want|would like] [my|the|all] notes [about|on] {topic}",
        "which note [has|mentions|is about] {topic}?",
        "did I [ever|] note [down|] {topic}?",
        "[can|could] my notes tell [me|] anything about {topic}?",
        "are {topic} [somewhere|anywhere] in my notes?",
        "[let me have|hand me|fetch] the notes [about|on] {topic}",
        "in my notes, [look|search] for {topic}",
        "does any note [talk about|speak of|contain] {topic}?",
    ),
    "read_note": (
        "note {id}, please",
        "the text of note {id}",
        "I [want|need|would like] to [read|see] note {id}",
        "[fetch|load|print|view] note {id}",
        "tell me what note {id} [says|is about]",
        "what's [written|] in note {id}?",
        "read out note {id}",
    ),
    "create_note": (
        "I [want|need] a note [that says|saying]: {prose}",
        "don't let me forget: {prose}",
        "for my notes: {prose}",
        "note: {prose}",
        "record this: {prose}",
        "[can|could] you note [down|] that {prose}?",
        "a new note, please: {prose}",
        "write this into my notes: {prose}",
        "please write down the following: {prose}",
    ),
    "list_events": (
        "{date}: what [is|do I have] on?",
        "what [are|were] my [plans|appointments|meetings|events] [for|on|] {date}?",
        "my [day|appointments|meetings|plans|events] [for|on|] {date}",
        "I [need|want] [my|the] [calendar|schedule|agenda|appointments] [for|on|] {date}",
        "anything [on|] {date}?",
        "do I have to be anywhere [on|] {date}?",
        "which [events|appointments] does my calendar have [for|on|] {date}?",
        "[fetch|read|print] [my|the] [agenda|schedule|events] [of|for] {date}",
        "what's up [on|] {date}?",
        "[is|was] there a meeting [on|] {date}?",
        "what should I do [on|] {date} according to my calendar?",
        "have I got time [on|] {date}?",
    ),
    "add_event": (
        "{title}, {date}, {time}: put it in my calendar",
        "there is {title} [on|] {date} at {time}, please add it",
        "I'll have {title} [on|] {date} at {time}, [note it in|write it in|add it to] my calendar",
        "please [note|enter|save] {title} for {date} at {time} in my [calendar|agenda|diary]",
        "my calendar needs {title} [on|] {date} at {time}",
        "make {date} at {time} the time for {title}",
        "[fix|organise|reserve] {title} [on|for] {date} at {time}",
        "remember {title} [on|] {date} at {time} in my calendar",
        "for {date} at {time} plan {title}",
    ),
    "search_mail": (
        "{mail_topic}: any mail?",
        "my [mail|mails|emails] [on|about] {mail_topic}[, please|]",
        "[anything|something] [on|about|from] {mail_topic} in my [inbox|mail|mailbox]?",
        "I [am looking|look] for [a mail|an email|mails] [about|on|from] {mail_topic}",
        "I [need|want|would like] [the|all] [emails|mails|messages] [about|on] {mail_topic}",
        "which [mail|email|message] [mentions|is about] {mail_topic}?",
        "what [mail|mails|emails|messages] [did I get|came|do I have] [from|about] {mail_topic}?",
        "in my [mail|inbox], [look|search] for {mail_topic}",
        "does any [mail|email] [talk about|contain|mention] {mail_topic}?",
        "[fetch|list|view] [the|all] [mails|emails] [from|about] {mail_topic}",
        "are there [mails|messages|emails] [from|about] {mail_topic}?",
    ),
    "read_mail": (
        "mail {id}, please",
        "the text of [mail|message|email] {id}",
        "I [want|need|would like] to [read|see] [mail|message|email] {id}",
        "[fetch|load|print|view] [mail|message|email] {id}",
        "tell me what [mail|message|email] {id} [says|is about]",
        "what's [written|] in [mail|message] {id}?",
        "read out [mail|email] {id}",
    ),
    "search_files": (
        "{topic}: any file?",
        "my [files|documents] [on|about] {topic}[, please|]",
        "[anything|something] [on|about] {topic} in my [files|documents|folder]?",
        "I [am looking|look] for [a file|a document|files|documents] [about|on] {topic}",
        "I [need|want|would like] [the|all] [files|documents] [about|on] {topic}",
        "in my [files|documents], [look|search] for {topic}",
        "does any [file|document] [talk about|contain|mention] {topic}?",
        "[fetch|view] [the|all] [files|documents] [about|on] {topic}",
        "which [file|document] [has|says something about] {topic}?",
        "did I [save|store] [a file|a document|something] [about|on] {topic}?",
    ),
    "read_file": (
        "{path}, please",
        "the [text|contents] of {path}",
        "I [want|need|would like] to [read|see] {path}",
        "[fetch|view|load] the [file|document|text] {path}",
        "tell me what {path} [says|is about]",
        "what's [written|] in {path}?",
        "read out {path}",
        "what [stands|can I find] in {path}?",
    ),
    "get_weather": (
        "{city}: what is the weather?",
        "the weather [in|for] {city}[, please|]",
        "I [need|want|would like] the [weather|forecast] [for|in] {city}",
        "[any|is there] [rain|snow|sun|wind|fog] in {city}?",
        "[rain|sun|snow] in {city}?",
        "how many degrees does {city} have?",
        "what temperature [does|has] {city} [have|]?",
        "is the weather [good|bad|nice] in {city}?",
        "[fetch|read] the forecast [for|of] {city}",
        "I'm in {city}, [what is|how is] the weather?",
        "we travel to {city}: [how warm is it|is it cold|does it rain] there?",
        "in {city}, is it [raining|warm|cold|sunny]?",
        "how [hot|cold|warm] does it get in {city}?",
    ),
}
OTHER_CHAIN_SHAPES: dict[str, tuple[str, ...]] = {
    "search_notes": (
        "I [want|need|would like] to [read|see] my note [about|on] {topic}",
        "what [have|had] I [written|noted] [about|on] {topic}?",
        "[fetch|get|print|view] the note [about|on] {topic} and [read|show] it [to me|]",
        "the text of my note [about|on] {topic}",
        "remind me what I wrote [about|on] {topic}",
        "what [is|was] my note [about|on] {topic}?",
        "according to my notes, what [is|about] {topic}?",
        "look for the note [about|on] {topic}, then read it",
    ),
    "search_mail": (
        "I [want|need|would like] to [read|see] the [mail|email|message] [about|on|from] {mail_topic}",
        "[fetch|get|print|view] the [mail|email] [about|from] {mail_topic} and [read|show] it [to me|]",
        "the text of the [mail|email|message] [about|from] {mail_topic}",
        "what [has|had] {person_topic} [written|said] [to me|in the mail|]?",
        "what [is|was] the [mail|email] [about|from] {mail_topic} saying?",
        "remind me what {person_topic} wrote",
        "look for the [mail|email] [about|on] {mail_topic}, then read it",
        "what news [is|was] in the [mail|email] [about|from] {mail_topic}?",
    ),
    "search_files": (
        "I [want|need|would like] to [read|see] the [file|document] [about|on] {topic}",
        "[fetch|get|print|view] the [file|document] [about|on] {topic} and [read|show] it [to me|]",
        "the text of the [file|document] [about|on] {topic}",
        "look for the [file|document] [about|on] {topic}, then read it",
        "what [does|did] the [file|document] [about|on] {topic} [contain|tell]?",
        "remind me what is in the [file|document] [about|on] {topic}",
    ),
}

_REPLACEABLE = re.compile(
    r"\b(search|check|look|scan|browse|find|show|get|list|give|bring|see|read|open|display|print|load|view|"
    r"fetch|tell|write|make|create|save|take|jot|remember|schedule|plan|arrange|enter|set|mentioning|"
    r"regarding|concerning|containing|contain|mention|mentions|related|anything|something|any|some|"
    r"planned|scheduled|happening|written|noted|receive|want|need|please|current|contents|currently)\b"
)


def reword(rng: Random, vocabulary: Vocabulary, line: str) -> str:
    """Put an unknown word in the place of one that the meaning does not hang on, or before them all."""
    places = list(_REPLACEABLE.finditer(line))
    if places and rng.random() < 0.8:
        place = rng.choice(places)
        return line[: place.start()] + vocabulary.invented(rng) + line[place.end() :]
    return f"{vocabulary.invented(rng)}{rng.choice([', ', ' '])}{line}"
