from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError
from agentrt.runtime.request.sampling_params import SamplingParams

VOCABULARY = 50


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", 1.5), ("max_tokens", True),
        ("temperature", -0.1), ("temperature", math.nan), ("temperature", math.inf), ("temperature", 9e9),
        ("temperature", 10**400), ("temperature", "hot"),
        ("top_p", 0.0), ("top_p", 1.01), ("top_p", math.nan), ("top_k", -1),
        ("top_k", 1.0), ("min_p", -0.1), ("min_p", 1.1), ("repetition_penalty", 0.0),
        ("repetition_penalty", 5e-148), ("repetition_penalty", 100.1),
        ("repetition_penalty", -1.0), ("repetition_penalty", math.nan), ("seed", -1), ("seed", 2**63),
        ("frequency_penalty", -2.1), ("frequency_penalty", math.nan), ("frequency_penalty", None),
        ("presence_penalty", 2.1), ("presence_penalty", math.inf), ("presence_penalty", True),
        ("seed", 1.0), ("ignore_eos", 1), ("stop", ("",)), ("stop", ["a"]),
        ("stop", (1,)), ("stop", ("x",) * 17), ("stop", ("x" * 257,)),
        ("stop_token_ids", (1.0,)), ("stop_token_ids", (True,)), ("logit_bias", {"1": 1.0}),
        ("logit_bias", {-1: 1.0}), ("logit_bias", {1: 101.0}), ("logit_bias", {1: math.nan}),
        ("logit_bias", [1]), ("logit_bias", dict.fromkeys(range(1025), 1.0)),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(field: str, value: object) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{field}: ") as caught:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


ANYTHING = (
    st.floats()
    | st.integers()
    | st.sampled_from([5e-324, 1e-46, 1e-307, 10**400, 2**63, True, None, "", "x", (), {}, [[]]])
)


@given(st.sampled_from([field.name for field in fields(SamplingParams)]), ANYTHING | st.lists(ANYTHING))
def test_any_value_is_accepted_or_refused_by_name(field: str, value: object) -> None:
    with suppress(InvalidRequestError):
        params = SamplingParams(**{field: value})  # type: ignore[arg-type]
        for number in (params.temperature, params.top_p, params.min_p, params.repetition_penalty,
                       params.frequency_penalty, params.presence_penalty):  # fmt: skip
            assert math.isfinite(number)


@pytest.mark.parametrize("field", ["max_tokens", "seed", "temperature", "top_p", "stop"])
def test_a_number_too_long_to_write_is_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{field}: "):
        SamplingParams(**{field: -(10**5000)})  # type: ignore[arg-type]


def test_token_ids_beyond_the_vocabulary() -> None:
    SamplingParams(logit_bias={49: 1.0}, stop_token_ids=(49,)).check_vocabulary(VOCABULARY)
    for params in (SamplingParams(logit_bias={50: 1.0}), SamplingParams(stop_token_ids=(-1,))):
        with pytest.raises(InvalidRequestError, match="0 to 49"):
            params.check_vocabulary(VOCABULARY)
