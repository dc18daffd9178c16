"""The things that synthetic dialogues talk about: words, people, places, dates, files, short prose.

Everything is drawn from a seeded ``random.Random``. Each open-class item belongs to exactly one split,
decided by a hash of its lower-cased text, so that evaluation meets words, names, places and invented
words that training never produced.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from .words import (
    ACCENTED,
    ADJECTIVES,
    CITIES,
    CODAS,
    COMMON_WORDS,
    DAY_PARTS,
    EXTENSIONS,
    FIRST_NAMES,
    HOURS,
    MONTHS,
    NOUNS,
    NUCLEI,
    ONSETS,
    SHORT_MONTHS,
    SKIES,
    SPOKEN_DAYS,
    SURNAMES,
    UNITS,
    WEEKDAYS,
)

Split = Literal["train", "held-out"]

_HELD_OUT_OF_EIGHT = 1
_COMMON = tuple(COMMON_WORDS.split())
_JOINING = ("and", "and", "and", "or", "to", "but", "for")
ANY_WORDS = 0.3
"""Share of sentences in prose that are :meth:`Vocabulary.any_words`."""


def _split_of(text: str) -> Split:
    return "held-out" if zlib.crc32(text.lower().encode()) % 8 < _HELD_OUT_OF_EIGHT else "train"


def _pool(words: str, split: Split) -> tuple[str, ...]:
    return tuple(sorted({word for word in words.split() if _split_of(word) == split}))


@dataclass(frozen=True)
class Vocabulary:
    """Draws entities of one split. Every method takes the random source first and returns text."""

    split: Split
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    first_names: tuple[str, ...]
    surnames: tuple[str, ...]
    cities: tuple[str, ...]
    blends: float = 0.0
    """Share of invented words that join the beginning of one known word to the end of another."""

    @classmethod
    def of(cls, split: Split, blends: float = 0.0) -> Vocabulary:
        """The vocabulary of one split; the two share no open-class word."""
        return cls(
            split,
            _pool(NOUNS, split),
            _pool(ADJECTIVES, split),
            _pool(FIRST_NAMES, split),
            _pool(SURNAMES, split),
            _pool(CITIES, split),
            blends,
        )

    def invented(self, rng: Random, syllables: int = 0) -> str:
        """A pronounceable word that means nothing: only copying gets it right."""
        if self.blends and not syllables and rng.random() < self.blends:
            return self._blend(rng)
        while True:
            count = syllables or rng.choice([1, 2, 2, 2, 2, 3])
            word = "".join(rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS) for _ in range(count))
            if 2 < len(word) < 14 and _split_of(word) == self.split:
                if rng.random() < 0.05:
                    plain = rng.choice([letter for letter in word if letter in ACCENTED] or ["\0"])
                    return word.replace(plain, rng.choice(ACCENTED.get(plain, plain)), 1)
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
        return rng.choice(self.nouns) if rng.random() < 0.75 else self.invented(rng)

    def topic(self, rng: Random) -> str:
        """What a note, mail or file may be about: one to six words, no leading article."""
        n, v = self.noun, self.invented
        shape = rng.random()
        if shape < 0.24:
            text = n(rng)
        elif shape < 0.46:
            text = f"{n(rng)} {n(rng)}"
        elif shape < 0.58:
            text = f"{rng.choice(self.adjectives)} {n(rng)}"
        elif shape < 0.66:
            text = f"{n(rng)} {n(rng)} {n(rng)}"
        elif shape < 0.72:
            text = f"{n(rng)} {rng.choice(['for', 'of', 'in', 'with', 'and', 'from', 'without', 'to'])} {rng.choice(['', '', 'the ', 'my '])}{n(rng)}"
        elif shape < 0.77:
            text = f"{rng.choice([self.person(rng), n(rng), 'mum', 'grandma'])}'s {n(rng)}"
        elif shape < 0.81:
            text = f"{n(rng)} {rng.choice([str(rng.randint(1, 2030)), 'Q' + str(rng.randint(1, 4)), chr(rng.randint(65, 90)) + str(rng.randint(1, 99))])}"
        elif shape < 0.85:
            text = f"how to {rng.choice(['fix', 'make', 'clean', 'grow', 'cook', 'sell', 'repair', 'paint', 'build'])} {rng.choice(['', 'a ', 'the '])}{n(rng)}"
        elif shape < 0.89:
            text = f"{rng.choice(self.cities)} {n(rng)}"
        elif shape < 0.92:
            text = f"{v(rng)}-{rng.choice([n(rng), str(rng.randint(1, 99)), v(rng)])}"
        elif shape < 0.95:
            text = f"{v(rng)} {v(rng)}"
        elif shape < 0.97:
            text = self.person(rng)
        else:
            text = f"{n(rng)}{rng.choice([' & ', ', ', ' / '])}{n(rng)}"
        return self.recase(rng, text)

    def recase(self, rng: Random, text: str) -> str:
        """Mostly as it is; sometimes capitalised, title-cased or in capitals."""
        shape = rng.random()
        if shape < 0.78:
            return text
        if shape < 0.88:
            return text[0].upper() + text[1:]
        if shape < 0.97:
            return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))
        return text.upper()

    def title(self, rng: Random) -> str:
        """A note's, event's or mail's title: a topic, more often capitalised."""
        if rng.random() < 0.12:
            text = f"{rng.choice(['lunch', 'dinner', 'meeting', 'call', 'coffee', 'appointment', 'interview', 'walk', 'breakfast', 'chat'])} with {self.person(rng)}"
        elif rng.random() < 0.14:
            n, who = self.noun, self.person
            text = rng.choice(
                [
                    f"{n(rng)} {n(rng)} for {who(rng)}",
                    f"{n(rng)} with the {rng.choice(self.surnames)}s",
                    f"{rng.choice(['pick up', 'collect', 'fetch', 'meet', 'visit', 'call', 'drop off'])} {who(rng)}",
                    f"{rng.choice(['pick up', 'collect', 'fetch', 'meet'])} {who(rng)} {rng.choice(['from', 'at'])} the {n(rng)}",
                ]
            )
        else:
            text = self.topic(rng)
        return text[0].upper() + text[1:] if rng.random() < 0.6 else text

    def person(self, rng: Random) -> str:
        """A first name, a full name, or an invented one."""
        first = rng.choice(self.first_names) if rng.random() < 0.65 else self.invented(rng).capitalize()
        if rng.random() < 0.05:
            first = f"{rng.choice(['Dr.', 'Dr', 'Mr.', 'Mr', 'Mrs.', 'Mrs', 'Ms', 'Prof.', 'aunt', 'uncle'])} {first}"
        if rng.random() < 0.5:
            return first
        last = rng.choice(self.surnames) if rng.random() < 0.65 else self.invented(rng).capitalize()
        return f"{first} {last}"

    def city(self, rng: Random) -> str:
        """A city, known or invented, sometimes of two words, sometimes in lower case."""
        shape = rng.random()
        name = rng.choice(self.cities) if shape < 0.5 else self.invented(rng).capitalize()
        if 0.78 < shape < 0.85:
            name = f"{name} {self.invented(rng).capitalize()}"
        elif shape > 0.88:
            name = f"{rng.choice(['New', 'San', 'Port', 'Fort', 'Lake', 'Saint', 'St.', 'Upper', 'North', 'Los', 'El'])} {name}"
        if rng.random() < 0.05:
            name = f"{name}, {self.invented(rng).capitalize()}"
        return name.lower() if rng.random() < 0.07 else name

    def file_name(self, rng: Random) -> str:
        """A path of one to three parts with an extension, in the many ways people name files."""
        joiner = rng.choice(["_", "-", "", "_", "-", ".", ""])
        words = [self.noun(rng) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        style = rng.random()
        if style < 0.2:
            words = [word.capitalize() for word in words]
        elif style < 0.25:
            words = [word.upper() for word in words]
        if rng.random() < 0.2:
            words.append(
                rng.choice(
                    [
                        str(rng.randint(1, 2030)),
                        "final",
                        "v" + str(rng.randint(1, 9)),
                        "Q" + str(rng.randint(1, 4)),
                        "draft",
                    ]
                )
            )
        if rng.random() < 0.06:
            words.insert(0, "Q" + str(rng.randint(1, 4)))
        name = (
            rng.choice(["_", "-"]) if len(words) > 1 and not joiner and rng.random() < 0.5 else joiner
        ).join(words)
        if rng.random() < 0.08 and len(words) > 1:
            name = f"{words[0]}_{'-'.join(words[1:])}"
        if rng.random() < 0.06:
            name = words[0].lower() + "".join(word.capitalize() for word in words[1:])
        if rng.random() < 0.06:
            stamp = f"{rng.randint(2019, 2031)}-{rng.randint(1, 12):02d}{rng.choice(['', f'-{rng.randint(1, 28):02d}'])}"
            name = rng.choice(
                [f"{stamp}-{name}", f"{stamp}_{name}", f"{name}-{stamp}", f"{name}({rng.randint(1, 9)})"]
            )
        folders = "".join(f"{self.noun(rng)}/" for _ in range(rng.choice([0, 0, 0, 1, 1, 2])))
        if rng.random() < 0.08:
            folders = rng.choice(["./", "~/", "/", "/home/", "../", "/etc/", "/var/log/"]) + folders
        elif rng.random() < 0.06:
            folders = rng.choice(["C:\\", "D:\\", ""]) + folders.replace("/", "\\")
        return f"{folders}{name}.{rng.choice(EXTENSIONS)}" if rng.random() < 0.95 else f"{folders}{name}"

    def date(self, rng: Random) -> str:
        """A date as people say it (at times in lower case); the tool parses it, the model copies it."""
        text = self._date(rng)
        return text.lower() if rng.random() < 0.08 else text

    def _date(self, rng: Random) -> str:
        day, month, weekday = rng.randint(1, 31), rng.choice(MONTHS), rng.choice(WEEKDAYS)
        ordinal = (
            f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10 if day not in (11, 12, 13) else 0, 'th') }"
        )
        shape = rng.random()
        if shape < 0.22:
            return rng.choice(SPOKEN_DAYS)
        if shape < 0.36:
            return weekday
        if shape < 0.5:
            return f"{rng.choice(['next', 'this', 'next', 'last', 'coming'])} {weekday}"
        if shape < 0.54:
            return f"{rng.choice(['tomorrow', weekday, 'next ' + weekday, 'on ' + weekday])} {rng.choice(DAY_PARTS)}".removeprefix(
                "on "
            )
        if shape < 0.57:
            short = rng.choice(SHORT_MONTHS)
            return rng.choice(
                [f"{short} {day}", f"{day} {short}", f"{short} {ordinal}", f"{weekday} {day} {short}"]
            )
        if shape < 0.64:
            return f"{month} {rng.choice([str(day), ordinal])}"
        if shape < 0.7:
            return f"{rng.choice([str(day), ordinal])} {month}"
        if shape < 0.76:
            return f"{ordinal} of {month}"
        if shape < 0.92:
            return f"{rng.randint(2024, 2031)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        if shape < 0.95:
            return f"{rng.randint(1, 12)}/{rng.randint(1, 28)}{rng.choice(['', '', '/' + str(rng.randint(2024, 2031))])}"
        if shape < 0.97:
            return rng.choice(
                [
                    f"{month} {day}, {rng.randint(2024, 2031)}",
                    f"{day}.{rng.randint(1, 12)}.",
                    ordinal,
                ]
            )
        return f"{weekday}, {month} {day}"

    def time(self, rng: Random) -> str:
        """A time of day in one of the usual notations."""
        shape = rng.random()
        if shape < 0.5:
            return f"{rng.randint(0, 23):02d}:{rng.choice([0, 0, 15, 30, 45, rng.randint(0, 59)]):02d}"
        if shape < 0.6:
            return f"{rng.randint(1, 12)}:{rng.choice([0, 15, 30, 45]):02d}"
        if shape < 0.75:
            return f"{rng.randint(1, 12)}{rng.choice(['am', 'pm'])}"
        if shape < 0.88:
            return f"{rng.randint(1, 12)}{rng.choice(['', ':30', ':15'])} {rng.choice(['am', 'pm'])}"
        if shape < 0.91:
            return f"{rng.randint(1, 12)} o'clock"
        if shape < 0.94:
            return f"{rng.choice(['half past', 'quarter past', 'quarter to', 'half'])} {rng.choice(HOURS)}"
        if shape < 0.96:
            return f"{rng.choice([str(rng.randint(1, 12)), rng.choice(HOURS)])} in the {rng.choice(['morning', 'afternoon', 'evening'])}"
        if shape < 0.97:
            return f"{rng.randint(0, 23)}h{rng.choice(['', '30', '15'])}"
        return rng.choice(["noon", "midnight"])

    def identifier(self, rng: Random, prefix: str = "") -> str:
        """A record's id: a letter and digits most of the time, as tools return them."""
        shape = rng.random()
        if shape < 0.6:
            return f"{prefix or rng.choice('abcdefghijklmnopqrstuvwxyz')}{rng.randint(1, rng.choice([9, 99, 99, 999, 99999]))}"
        if shape < 0.8:
            return (prefix or rng.choice("abcdefxyz")) + "".join(
                rng.choice("0123456789abcdef") for _ in range(rng.randint(2, 6))
            )
        if shape < 0.85:
            return f"{prefix or rng.choice('abcdefnmx')}{rng.choice('_-')}{rng.randint(1, rng.choice([9, 99, 999]))}"
        if shape < 0.88:
            return f"{(prefix or rng.choice('abcdefnmx')).upper()}{rng.randint(1, 999)}"
        if shape < 0.9:
            return rng.choice(["", "#"]) + str(rng.randint(1, 999))
        if shape < 0.95:
            return f"{self.invented(rng, 1)}-{rng.randint(1, 999)}"
        return f"{''.join(rng.choice('ABCDEFGHKLMNPRSTXZ') for _ in range(rng.randint(2, 3)))}-{rng.randint(1, 9999)}"

    def plain_identifier(self, rng: Random, prefix: str) -> str:
        """An id that says by its first letter what it belongs to."""
        return f"{prefix}{rng.choice(['', '', '', '_', '-'])}{rng.randint(1, rng.choice([9, 99, 999]))}"

    def integer(self, rng: Random, digits: int = 4) -> str:
        """A positive whole number of up to ``digits`` digits."""
        return str(rng.randint(1, 10 ** rng.randint(1, digits)))

    def amount(self, rng: Random) -> str:
        """A price or quantity, sometimes with a fraction or a thousands comma."""
        shape = rng.random()
        if shape < 0.5:
            return self.integer(rng)
        if shape < 0.85:
            return (
                f"{rng.randint(0, 999)}.{rng.randint(0, 99):02d}"
                if rng.random() < 0.6
                else f"{rng.randint(0, 99)}.{rng.randint(1, 9)}"
            )
        return f"{rng.randint(1, 99)},{rng.randint(0, 999):03d}"

    def measure(self, rng: Random) -> str:
        """A number with a unit, as text."""
        unit = rng.choice(UNITS)
        if unit in "€$" and rng.random() < 0.5:
            return f"{unit}{self.amount(rng)}"
        joiner = "" if unit in "%°C°F" else rng.choice([" ", " ", " ", ""])
        return f"{rng.choice(['', '', '', '-'])}{self.amount(rng)}{joiner}{unit}"

    def timestamp(self, rng: Random) -> str:
        """A day and time as programs write them."""
        day = f"{rng.randint(1990, 2031)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
        return rng.choice(
            [
                day,
                f"{day}T{time}:00Z",
                f"{day} {time}",
                f"{day}T{time}:{rng.randint(0, 59):02d}+0{rng.randint(0, 9)}:00",
            ]
        )

    def address(self, rng: Random) -> str:
        """A mail or web address."""
        host = f"{self.invented(rng)}.{rng.choice(['com', 'org', 'net', 'io', 'example'])}"
        if rng.random() < 0.5:
            return f"{rng.choice(self.first_names).lower()}@{host}"
        return f"https://{host}/{self.noun(rng).lower()}"

    def phone(self, rng: Random) -> str:
        """A phone number with its country."""
        return f"+{rng.randint(1, 99)} {rng.randint(100, 999)} {rng.randint(1000, 999999)}"

    def sky(self, rng: Random) -> str:
        """What the sky does, in a weather report's words."""
        return rng.choice(SKIES)

    def sentence(self, rng: Random) -> str:
        """One plain sentence of three to sixteen words, with the punctuation that breaks careless copying."""

        def n() -> str:
            return self.noun(rng)

        verb = rng.choice(
            "bring buy check clean collect cancel call order pay paint plan repair return send sell sign move water wash".split()
        )
        shape = rng.randrange(29)
        if shape == 0:
            text = (
                f"the {n()} is {rng.choice(self.adjectives)} and the {n()} is {rng.choice(self.adjectives)}"
            )
        elif shape == 1:
            text = f"please {verb} the {n()} before {self.date(rng)}"
        elif shape == 2:
            text = f"it costs {self.amount(rng)} {rng.choice(['euros', 'dollars', 'pounds', 'francs', 'a month', 'each', 'in total'])}"
        elif shape == 3:
            text = f"{self.person(rng)} will {verb} the {n()} {self.date(rng)} at {self.time(rng)}"
        elif shape == 4:
            text = f"{n()}, {n()}, {n()} and {n()}"
        elif shape == 5:
            text = f"we meet at the {n()} {rng.choice(['station', 'in ' + self.city(rng), 'on ' + rng.choice(WEEKDAYS)])}"
        elif shape == 6:
            text = f"the code is {self.identifier(rng)}"
        elif shape == 7:
            text = f"{verb} {self.amount(rng)} {n()}s, then {verb} the {n()}"
        elif shape == 8:
            text = f"I can't find the {n()}, do you have it"
        elif shape == 9:
            text = f"bake for {rng.randint(5, 90)} minutes at {rng.randint(12, 25) * 10} degrees"
        elif shape == 10:
            text = f"the {n()} meeting moved to {self.date(rng)}"
        elif shape == 11:
            text = f"{rng.choice(['revenue', 'rent', 'the price', n()])} {rng.choice(['grew', 'fell', 'rose', 'dropped'])} {rng.randint(1, 99)}% {rng.choice(['this year', 'in ' + rng.choice(MONTHS), 'since ' + str(rng.randint(1990, 2026))])}"
        elif shape == 12:
            text = f"{self.person(rng)} said that the {n()} needs a new {n()}"
        elif shape == 13:
            text = f"don't forget the {n()} for {self.person(rng)}"
        elif shape == 14:
            text = f"call {self.person(rng)} on {rng.randint(100, 999)} {rng.randint(1000, 9999)}"
        elif shape == 15:
            text = f"there are {rng.randint(2, 99)} {n()}s in the {n()}"
        elif shape == 16:
            text = f"the {n()} opens at {self.time(rng)} and closes at {self.time(rng)}"
        elif shape == 17:
            text = f"our flight to {self.city(rng)} leaves {self.date(rng)} at {self.time(rng)}"
        elif shape == 18:
            text = f"{rng.choice(['thanks', 'thank you', 'many thanks'])} for the {n()}"
        elif shape == 19:
            text = (
                f"use {self.amount(rng)} {rng.choice(['grams', 'kg', 'litres', 'cups', 'spoons'])} of {n()}"
            )
        elif shape == 20:
            text = f"the {n()} ({n()}) is in the {n()}"
        elif shape == 21:
            text = f"see {self.file_name(rng)} for the {n()}"
        elif shape == 22:
            text = f"{rng.choice(['my', 'her', 'his', 'our', 'their'])} {n()} {rng.choice(['was', 'looks', 'seems', 'is still'])} {rng.choice(self.adjectives)}"
        elif shape == 23:
            text = f"{rng.choice(['who', 'when', 'where', 'why'])} {rng.choice(['did', 'will', 'should'])} you {verb} the {n()}"
        elif shape == 24:
            text = f'{self.person(rng)} wrote "{n()} {n()}" on the {n()}'
        elif shape == 25:
            text = f"buy {n()}, {n()} and {n()}"
        elif shape == 26:
            text = f"{n()} {rng.choice(['—', '–', '-', '='])} {self.amount(rng)}{rng.choice([' €', '€', ' °C', '%', ' km', '$'])}, {rng.choice(['it’s', 'that’s', 'it is'])} {rng.choice(self.adjectives)}"
        elif shape == 27:
            text = " ".join(n() for _ in range(rng.randint(3, 7)))
        else:
            text = f"{n()}: {n()}; {n()}: {self.amount(rng)}"
        if rng.random() < 0.7:
            text = text[0].upper() + text[1:]
        return text

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
        text = " ".join(word + "," if rng.random() < 0.07 else word for word in words).rstrip(",")
        return text[0].upper() + text[1:]

    def prose(self, rng: Random, longest: int = 4) -> str:
        """One to ``longest`` sentences: what a note, mail or file says."""
        count = min(longest, rng.choice([1, 1, 1, 2, 2, 3, 4]))
        sentences = [
            self.any_words(rng) if rng.random() < ANY_WORDS else self.sentence(rng) for _ in range(count)
        ]
        if count == 1 and rng.random() < 0.4:
            return sentences[0]
        ends = [rng.choice([".", ".", ".", ".", "!", "?"]) for _ in sentences]
        return " ".join(sentence + end for sentence, end in zip(sentences, ends, strict=True))

    def expression(self, rng: Random) -> str:
        """An arithmetic expression, with decimals and parentheses at times."""

        def number() -> str:
            return self.integer(rng, 3) if rng.random() < 0.7 else f"{rng.randint(0, 99)}.{rng.randint(1, 9)}"

        def operator() -> str:
            return rng.choice([" + ", " - ", " * ", " / ", "+", "*", "-", "/"])

        text = number() + operator() + number()
        if rng.random() < 0.3:
            text = (
                f"({text}){operator()}{number()}" if rng.random() < 0.5 else f"{number()}{operator()}({text})"
            )
        elif rng.random() < 0.3:
            text += operator() + number()
        return text

    def amount_plain(self, rng: Random) -> str:
        """A number that JSON can hold as it is written: no thousands comma, no trailing zero."""
        return self.integer(rng, 3) if rng.random() < 0.7 else f"{rng.randint(0, 99)}.{rng.randint(1, 9)}"
