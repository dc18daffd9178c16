"""The grammar of the patterns, the words that fill them, and requests in other words."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from training.nano.families import FAMILIES
from training.nano.grammar import expand, named, say
from training.nano.vocabulary import Vocabulary
from training.nano.wording import reword


def test_expand_chooses_nested_alternatives_and_leaves_no_stray_space() -> None:
    seen = {expand(Random(seed), "[go [now|later]|stay|] [here|], {slot}?") for seed in range(200)}
    assert seen == {
        f"{verb}{' ' if verb and place else ''}{place}, {{slot}}?".lstrip()
        for verb in ("go now", "go later", "stay", "")
        for place in ("here", "")
    }


def test_all_alternatives_are_filled_from_left_to_right_before_one_is_chosen() -> None:
    filled: list[str] = []
    said = say(Random(0), "{a} [{b}|{c}] {d}", lambda slot: filled.append(slot) or slot.upper())
    assert filled == ["a", "b", "c", "d"]
    assert said in ("A B D", "A C D")


def test_a_name_in_angle_brackets_stands_for_a_text_of_the_grammar() -> None:
    assert named("[<greeting>], <who>", {"greeting": "hi|hello", "who": "{person}"}) == "[hi|hello], {person}"


def test_an_entry_draws_numbers_of_their_width_and_uses_what_it_was_given_and_has_drawn_before() -> None:
    vocabulary = Vocabulary("train")
    stamp = r"20(19|2\d|3[01])-\d\d(-\d\d)?"
    for seed in range(200):
        stamped = vocabulary.draw(Random(seed), "stamped", name="report")
        assert re.fullmatch(rf"{stamp}[-_]report|report-{stamp}|report\([1-9]\)", stamped)


TRAIN, HELD_OUT = Vocabulary("train"), Vocabulary("held-out")
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
