import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hypothesis_profiles import examples
from training.nano.answers import stated
from training.nano.markup import MARKUP_TOKENS
from training.nano.shapes import Shapes
from training.nano.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (12, "The result is 12."),
        ("12 degrees", "It says: 12 degrees"),
        ("", "I found nothing."),
        (None, "I found nothing."),
        ({}, "I found nothing."),
        ([], "I found nothing."),
        ({"results": []}, "I found nothing."),
        (True, "Done."),
        ({"ok": True, "status": "done"}, "Done."),
        (False, "That did not work."),
        (["a", "b"], "I found: a; b."),
        ({"items": ["a", "b"]}, "I found: a; b."),
        ([{"name": "bolt", "price": 2}, {"name": "nut"}], "I found: name bolt, price 2; name nut."),
        ({"high_tide": "04:17", "open": False}, "The high tide is 04:17 and the open is false."),
        ({"now": {"temp": -3.5, "wind": {"speed": 9}}}, "The temp is -3.5 and the speed is 9."),
        ({"city": "Oslo", "alerts": ["ice", "wind"]}, "The city is Oslo and the alerts are ice, wind."),
        ({"days": [{"high": 1}, {"high": 2}], "in": "C"}, "The high is 1 and the high is 2 and the in is C."),
        ({"seen": None, "note": ""}, "The seen is unknown and the note is empty."),
        ({"error": "no such city"}, "That did not work: no such city."),
        ({"ok": False, "reason": "no paper."}, "That did not work: no paper."),
        ({"status": "error", "message": "busy"}, "That did not work: busy."),
        ({"error": {"code": 404, "message": "gone"}}, "That did not work: gone."),
        ({"error": 17}, "That did not work."),
    ],
)  # fmt: skip
def test_the_answer_follows_from_the_value(value: Any, answer: str) -> None:
    text, facts = stated(value)
    assert text == answer
    assert all(fact in text for fact in facts)


@examples(200)
@given(st.integers(0, 2**32))
def test_every_shape_is_answered_in_words_with_all_its_facts(seed: int) -> None:
    shapes = Shapes(Random(seed), Vocabulary("train"))
    for _ in range(10):
        text, (answer, facts) = shapes.any("tide")
        assert answer
        assert all(fact in answer for fact in facts)
        assert not any(token in text + answer for token in MARKUP_TOKENS if token.startswith("<"))


def test_results_come_in_all_shapes_and_notations() -> None:
    shapes = Shapes(Random(0), Vocabulary("train"))
    texts = [shapes.any()[0] for _ in range(3000)]

    def parsed(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return ...

    values = [parsed(text) for text in texts]
    kinds = {type(value) for value in values}
    assert kinds >= {dict, list, str, int, float, bool, type(None), type(...)}
    objects = [value for value in values if isinstance(value, dict)]
    assert any(isinstance(entry, dict) for value in objects for entry in value.values())
    assert any(isinstance(entry, list) for value in objects for entry in value.values())
    assert any(text.startswith("{'") for text in texts)  # Python's notation
    assert any("{\n" in text for text in texts)
    assert any('":"' in text for text in texts)
    assert any("Error: " in text for text in texts)
