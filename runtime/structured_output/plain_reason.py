"""llguidance's reasons in words of JSON Schema."""

from __future__ import annotations

import re
from typing import Final

_TOO_MUCH_WORK: Final = "it takes too much work"
_MOST_CHARACTERS: Final = 300
_PLACE: Final = re.compile(r" while processing .*")
"""Where in a schema with references, by an address that the request does not have."""

_WORDS: Final = [
    (re.compile(pattern), words)
    for pattern, words in (
        # Of a schema.
        (
            r"oneOf constraints are not supported.*",
            "a value may match two schemas of a oneOf. Use anyOf, or give each another type or a required "
            "property with another const",
        ),
        (r"Unimplemented keys: \[(.*)\]", r"\1 is not supported here; check the answer for it instead"),
        (r"Expected f64 for '(\w+)', got (.*)", r"\1 is \2, and must be a number"),
        (r"invalid multiple of", "multipleOf is 0"),
        (r"Value for 'multipleOf' has too many digits: .*", "multipleOf has too many digits"),
        (r"Failed to generate regex for .* range: .*", "a bound of its numbers is too large or too exact"),
        (r"Resource '(.*)' is not present in a registry .*", r"$ref names \1, and nothing is fetched"),
        (r"Pointer '(.*)' does not exist", r"$ref names #\1, which is not there"),
        (r"Unsatisfiable schema: Regex is empty: .*", "no text satisfies its pattern, format and lengths"),
        (r"Unsatisfiable schema: (.*)", r"no value satisfies it: \1"),
        (r"patternProperty regexes (.*) are not disjoint", r"a name may match two patternProperties, \1"),
        (
            r"lookarounds not supported yet; \w+ in regex /(.*)/",
            r"the pattern \1 has a word boundary, or an anchor inside it",
        ),
        (r"regex parse error: (.*) error: (.*)", r"the pattern \1 cannot be used: \2"),
        (r".* too big \(limit for this grammar: .*", _TOO_MUCH_WORK),
        (r"fuel exhausted .*|Unable to determine if regex is empty: .*", _TOO_MUCH_WORK),
        (r"schema too large|Schema intersection stack level exceeded", _TOO_MUCH_WORK),
        (r'failed to parse "%json": (.*) at line .*', r"it cannot be read: \1"),
        # In an answer.
        (r"NoExtensionBias", "no value satisfies it"),
        (r"(lexer|parser) error: .*", _TOO_MUCH_WORK),
    )
]


def plain_reason(error: str) -> str:
    """Return an ``error`` of llguidance, one line, in words of JSON Schema where they are known."""
    error = _PLACE.sub("", error)
    for pattern, words in _WORDS:
        found = pattern.fullmatch(error)
        if found:
            error = found.expand(words)
            break
    return error if len(error) <= _MOST_CHARACTERS else f"{error[: _MOST_CHARACTERS - 1]}…"
