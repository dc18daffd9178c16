import re
from random import Random

from training.nano.grammar import expand, named, say
from training.nano.vocabulary import Vocabulary


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
