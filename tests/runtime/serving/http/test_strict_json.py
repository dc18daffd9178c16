from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.http import strict_json
from agentrt.runtime.serving.http.strict_json import has_more_values

TEXTS = st.text(st.sampled_from('\\"[]{},: é\nx'), max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.sampled_from([1, 3, 1 << 16]))
def test_values_are_counted_without_parsing(value: Any, ascii: bool, scanned_at_once: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    outside = re.sub(r'"(?:\\.|[^"\\])*"', "", text)
    values = 1 + sum(map(outside.count, "[{,:"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_SCANNED_AT_ONCE", scanned_at_once)
        assert has_more_values(text.encode(), values - 1)
        assert not has_more_values(text.encode(), values)


@pytest.mark.parametrize("text", [b"", b'"', b'"' * 200_000, b"\\", b'\\"[', b'"[[[['])
def test_texts_that_are_no_json(text: bytes) -> None:
    assert not has_more_values(text, 2)
