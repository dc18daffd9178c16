"""The weights of converted files are those that the gguf package reads, for every type."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType as Type

from agentrt.runtime.model.gguf import weights_file
from agentrt.runtime.model.gguf.quantisation import Floats, Groups, to_eight_bits
from tests.runtime.model.gguf import conversions
from tests.runtime.model.gguf.conversions import ConvertedType, compare_conversions, types

pytestmark = [pytest.mark.check, pytest.mark.real_model]


def test_every_type_is_converted_to_half_a_step_of_8_bits(tmp_path: Path) -> None:
    found = compare_conversions(tmp_path)
    assert len(found) == len(types()) == 26
    assert all(each.faithful for each in found)
    assert {each.name for each in found if each.error == 0} >= {"F32", "F16", "BF16"}


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "types", lambda: (Type.Q4_0,))


@pytest.mark.usefixtures("only")
def test_wrong_weights_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def round_wrongly(values: Floats) -> Groups:
        groups = to_eight_bits(values)
        groups.codes[7] += 1 - 2 * (groups.codes[7] > 0)
        return groups

    monkeypatch.setattr(weights_file, "to_eight_bits", round_wrongly)
    [found] = compare_conversions(tmp_path)
    assert not found.faithful


@pytest.mark.usefixtures("only")
def test_a_file_that_does_not_convert_is_not_faithful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "_METADATA", {"general.architecture": "unknown"})
    assert compare_conversions(tmp_path) == [ConvertedType("Q4_0", None)]
