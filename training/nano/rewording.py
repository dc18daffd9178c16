"""Unknown words in familiar requests, so that the models do not lean on any one verb.

People ask in more ways than any list holds: an unknown verb beside "notes" still means the notes.
"""

from __future__ import annotations

import re
from random import Random

from .vocabulary import Vocabulary

_REPLACEABLE = re.compile(
    r"\b(search|check|look|scan|browse|find|show|get|list|give|see|read|open|display|print|load|view|"
    r"fetch|tell|write|make|create|save|take|jot|remember|schedule|plan|arrange|enter|add|put|mentioning|"
    r"regarding|concerning|containing|contain|mention|mentions|related|anything|something|any|some|"
    r"planned|scheduled|happening|written|noted|receive|want|need|please|current|contents|currently|"
    r"query|filter|explore|examine|review|retrieve|locate|collect|hunt|calculate|compute|translate|convert|"
    r"play|turn|switch|start|track|define|explain|send|change|exchange|could|can|would)\b"
)
_PARTICLES = ("up", "out", "down", "over", "through", "off", "in", "on", "into", "around", "together", "away")
_OTHER_WORDS = tuple(
    "extract unearth surface flag catch grab spot trace inspect study consult discover seek produce recover "
    "deliver supply reveal expose identify determine detect notice observe consider process handle manage "
    "prepare compile assemble gather organise order enumerate detail outline describe state mention report "
    "announce repeat recall recite narrate spell share pass hand bring throw toss drop push lift carry hold "
    "draft compose record type stick pin tack glue attach append slip squeeze lock secure settle agree "
    "confirm allow permit request demand require wish hope love like prefer really maybe perhaps actually urgently "
    "briefly kind sort whole entire complete full latest newest recent old important precise exact certain "
    "possible available existing relevant matching similar different various several".split()
)
"""Real words that no request line uses as its verb, beside the invented ones."""


def _unknown(rng: Random, vocabulary: Vocabulary) -> str:
    return rng.choice(_OTHER_WORDS) if rng.random() < 0.5 else vocabulary.invented(rng)


def reword(rng: Random, vocabulary: Vocabulary, line: str) -> str:
    """Put an unknown word, at times with a particle, in the place of one that the meaning does not hang on.

    Or put one or two before everything, or after it behind a comma.
    """
    word = _unknown(rng, vocabulary)
    draw = rng.random()
    places = list(_REPLACEABLE.finditer(line))
    if places and draw < 0.7:
        place = rng.choice(places)
        if rng.random() < 0.3:
            word += f" {rng.choice(_PARTICLES)}"
        return line[: place.start()] + word + line[place.end() :]
    if rng.random() < 0.4:
        word += f" {_unknown(rng, vocabulary)}"
    if draw < 0.9 or line.rstrip("?").endswith("}"):
        return f"{word}{rng.choice([', ', ' ', ': '])}{line}"
    return f"{line.rstrip('?')}, {word}{'?' if line.endswith('?') else ''}"
