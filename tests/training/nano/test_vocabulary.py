from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from training.nano.vocabulary import Vocabulary

TRAIN, HELD_OUT = Vocabulary("train"), Vocabulary("held-out")


def test_the_two_splits_share_no_word() -> None:
    for pool in ("nouns", "adjectives", "first_names", "surnames", "cities"):
        train, held_out = set(getattr(TRAIN, pool)), set(getattr(HELD_OUT, pool))
        assert train
        assert held_out
        assert not train & held_out


@given(st.integers(0, 2**32))
def test_an_invented_word_belongs_to_one_split_whatever_its_case(seed: int) -> None:
    train = {TRAIN.invented(Random(seed + step)).lower() for step in range(20)}
    held_out = {HELD_OUT.invented(Random(seed + step)).lower() for step in range(20)}
    assert not train & held_out


def test_prose_holds_common_words_in_any_order_with_and_between_them() -> None:
    text = TRAIN.prose(Random(0)) + " ".join(TRAIN.any_words(Random(seed)) for seed in range(300))
    followers = {after for before, after in pairwise(text.split()) if before == "and"}
    assert len(followers) > 80


@given(st.integers(0, 2**32))
def test_the_same_seed_writes_the_same_prose(seed: int) -> None:
    assert TRAIN.prose(Random(seed)) == TRAIN.prose(Random(seed))
