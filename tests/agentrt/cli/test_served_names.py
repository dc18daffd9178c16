from __future__ import annotations

from pathlib import Path

import pytest
import typer

from agentrt.cli.options import names_of_models


def test_whose_names_they_are() -> None:
    assert names_of_models(["a", "b"], []) == [[], []]
    assert names_of_models(["a"], ["x", "y"]) == [["x", "y"]]
    assert names_of_models(["a"], ["x=a"]) == [["x"]]
    assert names_of_models(["a", "b=1.gguf"], ["x=b=1.gguf", "y=a", "z=a"]) == [["y", "z"], ["x"]]


def test_a_home_folder_is_expanded_as_in_model() -> None:
    home = str(Path.home())
    assert names_of_models([f"{home}/x.gguf", "a"], ["coder=~/x.gguf"]) == [["coder"], []]
    assert names_of_models(["a", "~/x.gguf"], [f"coder={home}/x.gguf"]) == [[], ["coder"]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "which model it names. Give x=MODEL, where MODEL is one of a, b"),
        ("x=c", "'c' in 'x=c' is no value of --model. Give one of a, b"),
        ("=a", "is no name"),
        ("x=", "is no name"),
        ("", "is no name"),
    ],
)
def test_names_that_do_not_say_whose_they_are(name: str, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        names_of_models(["a", "b"], [name])


@pytest.mark.parametrize("names", [["x", "x"], ["x", "y", "x=a"]])
def test_a_name_that_is_given_twice(names: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{names[-1]}' is given twice. Give it once"):
        names_of_models(["a"], names)
