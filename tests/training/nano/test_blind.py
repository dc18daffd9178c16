import pytest

from training.nano.blind import BlindCase, blind_cases
from training.nano.families import DEMO_FAMILIES, FAMILIES

CASES = blind_cases()


def test_there_are_many_cases_of_every_kind() -> None:
    assert len(CASES) >= 150
    assert {case.kind for case in CASES} == {"answer", "call", "calls", "read on", "talk", "text"}


def test_most_tools_are_none_of_the_generators() -> None:
    known = {name for family in FAMILIES.values() for name in (*family.names, *family.held_out_names)}
    there = {tool["function"]["name"] for case in CASES for tool in case.tools}
    assert len(there - known - set(DEMO_FAMILIES)) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shown[:60])
def test_a_case_can_be_got_right(case: BlindCase) -> None:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in case.tools}
    for name, arguments in case.calls:
        assert set(schemas[name]["required"]) <= set(arguments) <= set(schemas[name]["properties"])
    text = " ".join(fact.split("|")[0] for fact in case.facts)
    assert case.right(case.calls, text)
    assert not case.right((*case.calls, ("other", {})), text)
    assert not case.right((), "</tool_call>" + text)
