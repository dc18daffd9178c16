import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from training.nano.families import FAMILIES
from training.nano.grammar import expand
from training.nano.vocabulary import Vocabulary
from training.nano.wording import reword

TRAIN = Vocabulary("train")
LINES = [line for family in FAMILIES.values() for line in family.requests]


@given(st.integers(0, 2**32), st.sampled_from(LINES))
def test_a_reworded_line_is_another_one_with_the_same_slots_and_end(seed: int, line: str) -> None:
    rng = Random(seed)
    plain = expand(rng, line)
    changed = reword(rng, TRAIN, plain)
    assert changed != plain
    assert re.findall(r"\{\w+\}", changed) == re.findall(r"\{\w+\}", plain)
    assert changed.endswith("?") == plain.endswith("?")
    if plain.endswith("}"):  # whatever follows a slot would be taken for a part of it
        assert changed.endswith("}")


def test_a_reworded_line_keeps_most_of_its_words() -> None:
    rng = Random(0)
    for line in LINES:
        plain = expand(rng, line)
        kept = set(re.findall(r"[\w{}]+", plain)) - set(re.findall(r"[\w{}]+", reword(rng, TRAIN, plain)))
        assert len(kept) <= 1
