from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.engine.engine_request import AnswerText
from agentrt.runtime.model.detokenizer import ByteDetokenizer

ALPHABET = "abé😀"


def answer(raw: bytes, sizes: list[int], stop: list[str]) -> tuple[AnswerText, list[str]]:
    """Push ``raw`` in tokens of the given sizes, then byte by byte; return the text and its pieces."""
    pieces: list[bytes] = []
    for size in [*sizes, *[1] * len(raw)]:
        pieces.append(raw[:size])
        raw = raw[size:]
    text = AnswerText(ByteDetokenizer(pieces), stop)
    shown = []
    for token in range(len(pieces)):
        shown.append(text.push(token))
        if text.stopped:
            break
    shown.append(text.close())
    return text, shown


@given(
    st.text(ALPHABET, max_size=20),
    st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(1, 5), max_size=8),
)
def test_a_stop_text_never_shows(whole: str, stop: list[str], sizes: list[int]) -> None:
    text, shown = answer(whole.encode(), sizes, stop)
    found = [whole.find(each) for each in stop if each in whole]
    if not found:
        assert not text.stopped
        assert "".join(shown) == whole
    else:
        assert text.stopped
        # Whichever stop text is complete first ends the answer; nothing of it has been shown.
        assert whole.startswith("".join(shown))
        assert not any(each in "".join(shown) for each in stop)
        rest = whole[len("".join(shown)) :]
        assert any(rest.startswith(each) for each in stop)
    assert text.text == "".join(shown)


def test_held_back_until_it_cannot_be_a_stop_text() -> None:
    _, shown = answer(b"a</too</tool>b", [1, 5, 2, 5], ["</tool>"])
    assert shown == ["a", "", "</too", "", ""]
    _, shown = answer(b"a</to", [5], ["</tool>"])
    assert "".join(shown) == "a</to", "text that is no stop text is shown at the end"


def test_several_stop_texts_the_first_in_the_text_counts() -> None:
    text, shown = answer(b"xENDyTOP", [8], ["TOP", "END"])
    assert ("".join(shown), text.stopped) == ("x", True)
