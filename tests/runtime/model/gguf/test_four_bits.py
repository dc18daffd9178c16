"""When weights of 4 bits keep their codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType as Type

from agentrt.runtime.model.gguf import conversion
from agentrt.runtime.model.gguf.conversion import keeps_four_bits
from agentrt.runtime.model.gguf.file_format import Tensor

MEMORY = 16 * 2**30


def tensor(type: Type, weights: int) -> Tensor:
    return Tensor("x", Path("x"), (weights // 4096, 4096), type, 0, 0)


@pytest.mark.parametrize(
    ("type", "gib", "kept"),
    [(Type.Q4_K, 1, False), (Type.Q4_K, 2, False), (Type.Q4_K, 3, True), (Type.Q8_0, 3, False)],
)
def test_they_do_where_8_bits_would_take_more_than_an_eighth_of_the_memory(
    type: Type, gib: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_memory", lambda: MEMORY)
    half = tensor(type, gib * 2**29)
    assert keeps_four_bits([half, tensor(Type.F32, 2**34), half]) == kept


def test_they_do_not_where_the_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_memory", lambda: None)
    assert not keeps_four_bits([tensor(Type.Q4_0, 2**40)])
