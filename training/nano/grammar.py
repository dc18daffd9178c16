"""The grammar of the patterns in ``data/``, and the reader of these files.

``[a|b]`` is one of several alternatives, which may be empty or nested; ``{slot}`` is filled with a text. The
files are TOML. A list of patterns is an array there, or a text with one pattern on each line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

_DATA = Path(__file__).with_name("data")
_TOKEN = re.compile(r"([\[\]|]|\{[^{}]*\})")


@cache
def load(name: str) -> dict[str, Any]:
    """Return the content of ``data/{name}.toml``."""
    return tomllib.loads((_DATA / f"{name}.toml").read_text(encoding="utf-8"))


def lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text in a data file."""
    return tuple(text.strip("\n").splitlines())


def named(text: str, names: Mapping[str, str]) -> str:
    """Return ``text`` with the values of ``names`` in the place of each ``<name>``."""
    return re.sub(r"<(\w+)>", lambda match: names[match[1]], text)


def say(rng: Random, pattern: str, slot: Callable[[str], str]) -> str:
    """Return ``pattern`` with what ``slot`` returns for the name of each slot, and its choices made.

    Everything is drawn from left to right. All alternatives are filled before one is chosen.
    """
    open_choices = [[""]]
    for token in _TOKEN.split(pattern):
        if token == "[":
            open_choices.append([""])
        elif token == "]":
            alternatives = open_choices.pop()
            open_choices[-1][-1] += rng.choice(alternatives)
        elif token == "|" and len(open_choices) > 1:
            open_choices[-1].append("")
        else:
            open_choices[-1][-1] += slot(token[1:-1]) if token.startswith("{") else token
    return open_choices[0][0]


def expand(rng: Random, line: str) -> str:
    """Return ``line`` with its choices made and its slots left; spaces around what is empty are removed."""
    chosen = say(rng, line, lambda name: f"{{{name}}}")
    return re.sub(r" +([,.?!:])", r"\1", re.sub(r" {2,}", " ", chosen)).strip()


def capitalised(text: str) -> str:
    """Return ``text`` with a capital at its beginning, and the rest as it is."""
    return text[0].upper() + text[1:]
