import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.terminal_text import printable


def test_text_lines_and_tabs_stay() -> None:
    text = "Grüße, 東京 \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}\n\t\N{HEBREW LETTER ALEF}"
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\u241b[2J"),
        ("\x1b]52;c;cm0=\x07", "\u241b]52;c;cm0=\u2407"),
        ("a\rb\x08\x7f\0", "a\u240db\u2408\u2421\u2400"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("\u202etxt.exe\u2066", "\\u202etxt.exe\\u2066"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec="utf-8", categories=["Cc", "Cf", "L"])))
def test_no_control_character_remains(text: str) -> None:
    shown = printable(text)
    assert not [character for character in shown if ord(character) < 32 and character not in "\n\t"]
    assert not [character for character in shown if 0x7F <= ord(character) < 0xA0]
    assert printable(shown) == shown
