"""The comparisons with the gguf package and with Transformers: they can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType as Type

from agentrt.bench.models import architectures, conversions
from agentrt.bench.models.architectures import ArchitectureResult, compare_architectures
from agentrt.bench.models.conversions import ConvertedType, compare_conversions, types
from agentrt.bench.models.families import write_family
from agentrt.runtime.gguf import quantisation
from agentrt.runtime.gguf.quantisation import Bytes, Groups

pytestmark = pytest.mark.bench

WITH_OFFSETS = {"Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"}
ROUNDING = 2e-7
"""Of float32."""


def test_every_type_is_exact_up_to_the_rounding_of_offsets(tmp_path: Path) -> None:
    found = compare_conversions(tmp_path)
    assert len(found) == len(types()) == 26
    assert {each.name for each in found if not each.exact} <= WITH_OFFSETS
    assert all(each.error is not None and each.error < ROUNDING for each in found)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "types", lambda: (Type.Q4_0,))
    monkeypatch.setattr(architectures, "FAMILIES", ("llama", "qwen2"))


@pytest.mark.usefixtures("only")
def test_wrong_weights_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = quantisation.QUANTISATIONS[Type.Q4_0]

    def unpack(blocks: Bytes) -> Groups:
        groups = right.unpack(blocks)
        groups.codes[7] += 1 - 2 * (groups.codes[7] > 0)
        return groups

    wrong = quantisation.Quantisation(4, 32, unpack)
    monkeypatch.setitem(quantisation.QUANTISATIONS, Type.Q4_0, wrong)  # type: ignore[arg-type]
    [found] = compare_conversions(tmp_path)
    assert found.error is not None
    assert found.error > 1e-3
    assert not found.exact


@pytest.mark.usefixtures("only")
def test_a_file_that_does_not_convert_is_not_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
