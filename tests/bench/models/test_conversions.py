"""The comparisons with the gguf package and with Transformers: they can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType as Type

from agentrt.bench.models import architectures, conversions
from agentrt.bench.models.architectures import ArchitectureResult, compare_architectures
from agentrt.bench.models.conversions import ConvertedType, compare_conversions, types
from agentrt.bench.models.families import write_family
from agentrt.runtime.model.gguf import weights_file
from agentrt.runtime.model.gguf.quantisation import Floats, Groups, to_eight_bits

pytestmark = pytest.mark.bench


def test_every_type_is_converted_to_half_a_step_of_8_bits(tmp_path: Path) -> None:
    found = compare_conversions(tmp_path)
    assert len(found) == len(types()) == 26
    assert all(each.faithful for each in found)
    assert {each.name for each in found if each.error == 0} >= {"F32", "F16", "BF16"}


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "types", lambda: (Type.Q4_0,))
    monkeypatch.setattr(architectures, "FAMILIES", ("llama", "qwen2"))


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


@pytest.mark.usefixtures("only")
def test_other_answers_and_refused_models_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.is_equal for each in compare_architectures(tmp_path)] == [True, True]

    def write_wrong(file: Path, name: str) -> Path:
        if name == "llama":
            return write_family(file, "llama-linear")
        file.write_bytes(b"GGUF")
        return file

    monkeypatch.setattr(architectures, "write_family", write_wrong)
    linear, refused = compare_architectures(tmp_path)
    assert not linear.is_equal
    assert refused == ArchitectureResult("qwen2", 24, 0)
