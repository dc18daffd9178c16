"""The things that synthetic dialogues talk about: words, people, places, dates, files, short prose.

Everything is drawn from a seeded ``random.Random``. Each open-class item belongs to exactly one split,
decided by a hash of its lower-cased text, so that evaluation meets words, names, places and invented
words that training never produced. ``data/words.toml`` has the known words, ``data/phrases.toml`` what is
made of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Literal

from .grammar import capitalised, load, say

Split = Literal["train", "held-out"]

_HELD_OUT_OF_EIGHT = 1


def _joined(entry: Any) -> Any:
    """Return an entry with a pattern of several lines in one."""
    return "".join(entry.splitlines()) if isinstance(entry, str) else entry


_WORDS: Final = load("words")
_ONSETS, _NUCLEI = _WORDS["onsets"].split(), _WORDS["nuclei"].split()
_CODAS, _ACCENTED = _WORDS["codas"], _WORDS["accented"]
_COMMON = _WORDS["common_words"].split()
ENTRIES: Final[Mapping[str, str | list[str] | list[tuple[float, str]]]] = {
    **{name: words.split() for name, words in load("phrases")["words"].items()},
    **{name: _joined(entry) for name, entry in load("phrases")["entries"].items()},
}
"""The entries of ``data/phrases.toml``: a pattern, or several, or several with the bound of a draw each."""
_JOINING = ("and", "and", "and", "or", "to", "but", "for")
_ANY_WORDS = 0.3
"""Share of sentences in prose that are :meth:`Vocabulary.any_words`."""


def _split_of(text: str) -> Split:
    return "held-out" if zlib.crc32(text.lower().encode()) % 8 < _HELD_OUT_OF_EIGHT else "train"


class Vocabulary:
    """Draws texts of one split. The methods take the random source first."""

    def __init__(self, split: Split, blends: float = 0.0) -> None:
        """``blends`` is the share of invented words that join the beginning and the end of known ones."""
        self.split = split
        self.blends = blends
        self.nouns, self.adjectives = self._pool("nouns"), self._pool("adjectives")
        self.first_names, self.surnames = self._pool("first_names"), self._pool("surnames")
        self.cities = self._pool("cities")
        self._known = {
            "known_noun": self.nouns,
            "adjective": self.adjectives,
            "known_first_name": self.first_names,
            "surname": self.surnames,
            "known_city": self.cities,
        }
        self._functions: Mapping[str, Callable[[Random], str]] = {
            "invented": self.invented,
            "Invented": lambda rng: self.invented(rng).capitalize(),
            "syllable": lambda rng: self.invented(rng, 1),
            "topic": self.topic,
            "title": self.title,
            "city": self.city,
            "date": self.date,
            "path": self.path,
            "address": self.address,
            "measure": self.measure,
            "nouns": lambda rng: " ".join(self.draw(rng, "noun") for _ in range(rng.randint(3, 7))),
            "sentence": self.sentence,
            "short": self._short,
            "short_prose": lambda rng: self.prose(rng, 2).rstrip("."),
        }

    def _pool(self, name: str) -> tuple[str, ...]:
        return tuple(sorted({word for word in _WORDS[name].split() if _split_of(word) == self.split}))

    def draw(self, rng: Random, entry: str, **given: str) -> str:
        """Return a text for ``entry``, that has the values ``given`` for the slots of these names."""
        return self._draw(rng, entry, given)

    def _draw(self, rng: Random, entry: str, values: dict[str, str]) -> str:
        if entry in values:
            return values[entry]
        if entry in self._functions:
            return self._functions[entry](rng)
        if entry in self._known:
            return rng.choice(self._known[entry])
        if entry == "ordinal":
            return _ordinal(int(values["day"]))
        variants = ENTRIES[entry]
        if isinstance(variants, str):
            pattern = variants
        elif isinstance(variants[0], str):
            pattern = str(rng.choice(variants))
        else:
            drawn = rng.random()
            pattern = next(text for bound, text in variants if drawn < float(bound))
        return say(rng, pattern, lambda slot: self._fill(rng, slot, values))

    def _fill(self, rng: Random, slot: str, values: dict[str, str]) -> str:
        """Fill one slot of an entry's pattern; ``{name:=entry}`` is empty, and adds to ``values``."""
        name, assigned, source = slot.partition(":=")
        if assigned:
            values[name] = self._fill(rng, source, values)
            return ""
        name, repeated, count = slot.partition("*")
        if repeated:
            return "".join(self._draw(rng, name, values) for _ in range(int(_number(rng, count))))
        return _number(rng, slot) if ".." in slot else self._draw(rng, slot, values)

    def invented(self, rng: Random, syllables: int = 0) -> str:
        """A pronounceable word that means nothing: only copying gets it right."""
        if self.blends and not syllables and rng.random() < self.blends:
            return self._blend(rng)
        while True:
            count = syllables or rng.choice([1, 2, 2, 2, 2, 3])
            word = "".join(
                rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(count)
            )
            if 2 < len(word) < 14 and _split_of(word) == self.split:
                if rng.random() < 0.05:
                    plain = rng.choice([letter for letter in word if letter in _ACCENTED] or ["\0"])
                    return word.replace(plain, rng.choice(_ACCENTED.get(plain, plain)), 1)
                return word

    def _blend(self, rng: Random) -> str:
        """Every piece of a known word, before and after every other: what unknown words are made of."""
        while True:
            first, second = (
                rng.choice(rng.choice([self.nouns, self.first_names, self.cities])) for _ in range(2)
            )
            word = first[: rng.randint(1, len(first) - 1)].lower() + second[rng.randint(1, len(second) - 1) :]
            if 3 < len(word) < 14 and _split_of(word) == self.split:
                return word

    def noun(self, rng: Random) -> str:
        """A known noun three times in four, else an invented word."""
        return self.draw(rng, "noun")

    def topic(self, rng: Random) -> str:
        """A topic, mostly as it is; sometimes capitalised, title-cased or in capitals."""
        text = self.draw(rng, "plain_topic")
        shape = rng.random()
        if shape < 0.78:
            return text
        if shape < 0.88:
            return capitalised(text)
        if shape < 0.97:
            return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))
        return text.upper()

    def title(self, rng: Random) -> str:
        """A note's, event's or mail's title: a topic, more often capitalised."""
        text = self.draw(rng, "plain_title")
        return capitalised(text) if rng.random() < 0.6 else text

    def city(self, rng: Random) -> str:
        """A city, known or invented, sometimes of two words, sometimes in lower case."""
        name = self.draw(rng, "plain_city")
        return name.lower() if rng.random() < 0.07 else name

    def date(self, rng: Random) -> str:
        """A date as people say it, at times in lower case."""
        text = self.draw(rng, "plain_date")
        return text.lower() if rng.random() < 0.08 else text

    def path(self, rng: Random) -> str:
        """A path of one to three parts with an extension, in the many ways people name files."""
        name = self._file_name(rng)
        if rng.random() < 0.06:
            name = self.draw(rng, "stamped", name=name)
        folders = "".join(f"{self.noun(rng)}/" for _ in range(rng.choice([0, 0, 0, 1, 1, 2])))
        if rng.random() < 0.08:
            folders = rng.choice(["./", "~/", "/", "/home/", "../", "/etc/", "/var/log/"]) + folders
        elif rng.random() < 0.06:
            folders = rng.choice(["C:\\", "D:\\", ""]) + folders.replace("/", "\\")
        return folders + self.draw(rng, "with_extension", name=name)

    def _file_name(self, rng: Random) -> str:
        joiner = rng.choice(["_", "-", "", "_", "-", ".", ""])
        words = [self.noun(rng) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        style = rng.random()
        if style < 0.2:
            words = [word.capitalize() for word in words]
        elif style < 0.25:
            words = [word.upper() for word in words]
        if rng.random() < 0.2:
            words.append(self.draw(rng, "name_end"))
        if rng.random() < 0.06:
            words.insert(0, self.draw(rng, "quarter"))
        if len(words) > 1 and not joiner and rng.random() < 0.5:
            joiner = rng.choice(["_", "-"])
        name = joiner.join(words)
        if rng.random() < 0.08 and len(words) > 1:
            name = f"{words[0]}_{'-'.join(words[1:])}"
        if rng.random() < 0.06:
            name = words[0].lower() + "".join(word.capitalize() for word in words[1:])
        return name

    def identifier(self, rng: Random, prefix: str = "") -> str:
        """A record's id: a letter and digits most of the time, as tools return them."""
        if not prefix:
            return self.draw(rng, "identifier")
        letters = dict.fromkeys(("letter", "record_letter", "short_letter"), prefix)
        return self.draw(rng, "identifier", **letters, short_capital=prefix.upper())

    def measure(self, rng: Random) -> str:
        """A number with a unit, as text."""
        unit = self.draw(rng, "measuring_unit")
        if unit in "€$" and rng.random() < 0.5:
            return f"{unit}{self.draw(rng, 'amount')}"
        joiner = "" if unit in "%°C°F" else rng.choice([" ", " ", " ", ""])
        return f"{rng.choice(['', '', '', '-'])}{self.draw(rng, 'amount')}{joiner}{unit}"

    def address(self, rng: Random) -> str:
        """A mail or web address."""
        host = f"{self.invented(rng)}.{rng.choice(['com', 'org', 'net', 'io', 'example'])}"
        if rng.random() < 0.5:
            return f"{rng.choice(self.first_names).lower()}@{host}"
        return f"https://{host}/{self.noun(rng).lower()}"

    def sentence(self, rng: Random) -> str:
        """One plain sentence of three to sixteen words."""
        text = self.draw(rng, "verb_and_sentence")
        return capitalised(text) if rng.random() < 0.7 else text

    def any_words(self, rng: Random) -> str:
        """Common words in any order, nouns between them: what follows what is known by copying alone.

        Many "and": in what a tool returns it never ends a phrase, as it does between two requests.
        """

        def word() -> str:
            draw = rng.random()
            if draw < 0.12:
                return rng.choice(_JOINING)
            return rng.choice(_COMMON) if draw < 0.75 else self.noun(rng)

        words = [word() for _ in range(rng.randint(4, 18))]
        return capitalised(
            " ".join(word + "," if rng.random() < 0.07 else word for word in words).rstrip(",")
        )

    def prose(self, rng: Random, longest: int = 4) -> str:
        """One to ``longest`` sentences: what a note, mail or file says."""
        count = min(longest, rng.choice([1, 1, 1, 2, 2, 3, 4]))
        sentences = [
            self.any_words(rng) if rng.random() < _ANY_WORDS else self.sentence(rng) for _ in range(count)
        ]
        if count == 1 and rng.random() < 0.4:
            return sentences[0]
        ends = [rng.choice([".", ".", ".", ".", "!", "?"]) for _ in sentences]
        return " ".join(sentence + end for sentence, end in zip(sentences, ends, strict=True))

    def _short(self, rng: Random) -> str:
        text = self.sentence(rng) if rng.random() < 0.6 else self.topic(rng)
        return text.rstrip(".?!")


def _number(rng: Random, bounds: str) -> str:
    """Draw a whole number of at least as many digits as the lower one of ``bounds``, such as ``01..12``."""
    least, _, most = bounds.partition("..")
    if "[" in most:
        most = say(rng, most, str)
    return f"{rng.randint(int(least), int(most)):0{len(least)}d}"


def _ordinal(day: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{day}{ends.get(day % 10 if day not in (11, 12, 13) else 0, 'th')}"


class Drawing:
    """Draws from one random source and one vocabulary."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe."""
        self.rng = rng
        self.vocabulary = vocabulary
