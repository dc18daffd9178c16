import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hypothesis_profiles import examples
from training.nano.dialogues import HELD_OUT_SMALL_TALK, Author
from training.nano.families import FAMILIES
from training.nano.grammar import expand
from training.nano.markup import segments
from training.nano.turns import Mix
from training.nano.vocabulary import Split


def text_of(seed: int, split: Split) -> str:
    return "".join(part.text for part in segments(Author(Random(seed), split).dialogue(4)))


@given(st.integers(0, 2**32))
def test_the_same_seed_writes_the_same_dialogue(seed: int) -> None:
    assert text_of(seed, "train") == text_of(seed, "train")


@examples(100)
@given(st.integers(0, 2**32), st.sampled_from(["train", "held-out"]), st.sampled_from([0.0, 0.5]))
def test_a_turn_holds_together(seed: int, split: Split, share: float) -> None:
    dialogue = Author(Random(seed), split, blends=share, unknown_words=share).dialogue(
        8, mix=Mix(several=0.3)
    )
    schemas = {tool.name: tool.schema()["function"]["parameters"] for tool in dialogue.tools}
    for turn in dialogue.turns:
        assert turn.request
        assert not re.search(r"[{}\[\]|]", turn.request)  # every slot was filled, every choice made
        for fact in turn.facts:
            assert fact in turn.answer
        for step in turn.steps:
            schema = schemas[step.name]
            assert set(schema["required"]) <= set(step.arguments) <= set(schema["properties"])
            for name, value in step.arguments.items():
                kind = schemas[step.name]["properties"][name]["type"]
                assert isinstance(value, {"string": str, "integer": int, "number": (int, float)}[kind])


@examples(50)
@given(st.integers(0, 2**32))
def test_a_dialogue_of_calls_shows_one_call_a_turn(seed: int) -> None:
    dialogue = Author(Random(seed), "train").dialogue(10, 10, calls_only=True)
    learned = [part.text for part in segments(dialogue) if part.learned]
    assert len(learned) == len(dialogue.turns)
    for text, turn in zip(learned, dialogue.turns, strict=True):
        assert text.startswith("<tool_call>") == bool(turn.steps)


def test_dialogues_of_calls_mostly_show_different_tools() -> None:
    # Of many dialogues, as each draws by chance: now and then one repeats half of its tools.
    different = possible = 0
    for seed in range(100):
        dialogue = Author(Random(seed), "train").dialogue(10, 10, calls_only=True)
        called = [turn.steps[0].name for turn in dialogue.turns if turn.steps]
        different += len(set(called))
        possible += min(len(dialogue.tools), len(called))
    assert different > 0.8 * possible


def test_a_mix_of_searches_asks_for_a_hit_only_where_a_tool_reads_it() -> None:
    author = Author(Random(0), "train")
    turns = []
    for _ in range(200):
        dialogue = author.dialogue(3, 10, Mix(several=0.0, searches=1.0))
        there = {tool.family.key for tool in dialogue.tools if tool.family is not None}
        searching = {key for key in there if FAMILIES[key].chain_to}
        turns += [(turn, there) for turn in dialogue.turns if searching and turn.steps]
    chains = [(turn, there) for turn, there in turns if "+" in turn.kind]
    assert len(chains) > len(turns) / 6
    assert all(turn.kind.split("+")[1] in there for turn, there in chains)
    searches = [turn for turn, _ in turns if turn.kind.startswith("search_")]
    assert len(searches) > len(turns) * 0.6  # the rest read on what was found, or had called the searches


def test_a_request_without_its_slot_means_the_default() -> None:
    author = Author(Random(0), "train")
    tools = author.toolsmith.tools(10, demo=True, names="usual")
    calendar = next(tool for tool in tools if tool.name == "list_events")
    turns = [author.turn(tools, calendar) for _ in range(400)]
    unsaid = [turn for turn in turns if turn.steps[0].arguments["date"].lower() not in turn.request.lower()]
    assert unsaid
    assert {turn.steps[0].arguments["date"] for turn in unsaid} == {"today"}


def test_small_talk_of_training_is_never_that_of_evaluation() -> None:
    author = Author(Random(0), "train")
    said = {re.sub(r"[?.!]$", "", author.small_talk().request).lower() for _ in range(5000)}
    assert not said & {text for entry in HELD_OUT_SMALL_TALK for text in entry.said}


def test_a_chain_reads_what_the_search_found() -> None:
    author = Author(Random(1), "train")
    tools = author.toolsmith.tools(10, demo=True, names="usual")
    search = next(tool for tool in tools if tool.name == "search_mail")
    chains = [
        turn for turn in (author.turn(tools, search, chain=True) for _ in range(40)) if len(turn.steps) == 2
    ]
    assert chains
    for turn in chains:
        assert turn.found[0] in turn.steps[0].result
        assert turn.steps[1].arguments == {"id": turn.found[0]}


def test_a_request_for_several_things_makes_all_calls_in_one_message() -> None:
    author = Author(Random(2), "train")
    tools = author.toolsmith.tools(10, demo=True, names="usual")
    turns = [turn for turn in (author.several(tools) for _ in range(200)) if turn is not None]
    assert len(turns) > 100
    for turn in turns:
        assert turn.messages == (turn.steps,)
        assert len(turn.steps) >= 2
        said = [str(value) for step in turn.steps for value in step.arguments.values()]
        unsaid = [value for value in said if value.lower() not in turn.request.lower()]
        assert set(unsaid) <= {"today"}  # what a calendar is asked for that names no day


def test_an_optional_argument_is_given_where_the_request_mentions_it() -> None:
    author = Author(Random(3), "train")
    given = left_out = 0
    for _ in range(300):
        for tool in author.toolsmith.tools(6, demo=False, names="mixed"):
            for name, kind in tool.optional:
                turn = author.turn([tool], tool)
                value = turn.steps[0].arguments.get(name)
                given, left_out = given + (value is not None), left_out + (value is None)
                if value is not None:
                    assert str(value).lower() in turn.request.lower()
                    assert "|" not in kind or value in kind.split("|")
    assert given > 20
    assert left_out > 20


def test_a_follow_up_reads_hits_by_their_place_or_asks_the_same_of_another_thing() -> None:
    author = Author(Random(4), "train")
    tools = author.toolsmith.tools(10, demo=True, names="usual")
    weather, notes = (next(t for t in tools if t.name == name) for name in ("get_weather", "search_notes"))
    again = author.follow_up(tools, author.turn(tools, weather))
    assert again is not None
    assert again.steps[0].arguments["city"] in again.request
    seen = set()
    for _ in range(300):
        searched = author.turn(tools, notes)
        turn = author.follow_up(tools, searched)
        if turn is not None and len(searched.found) > 1:
            chosen = tuple(step.arguments["id"] for step in turn.steps)
            seen.add(searched.found.index(chosen[0]) if len(chosen) == 1 else "all")
            assert set(chosen) <= set(searched.found)
    assert seen >= {0, 1, "all"}


@pytest.mark.parametrize("key", sorted(FAMILIES))
def test_no_request_line_is_both_trained_and_held_out(key: str) -> None:
    family, rng = FAMILIES[key], Random(0)
    trained = {expand(rng, line) for line in family.requests + family.chain_requests for _ in range(60)}
    held_out = {expand(rng, line) for line in family.held_out + family.chain_held_out for _ in range(20)}
    assert not trained & held_out
    assert not set(family.names) & set(family.held_out_names)
