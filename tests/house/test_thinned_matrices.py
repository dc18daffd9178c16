"""What a local run leaves out of matrices."""

from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hypothesis_profiles import _left_out


@pytest.mark.parametrize(("parameters", "size", "kept"), [(3, 2, 9), (2, 1, 3), (1, 1, 3)])
def test_every_pair_of_three_parameters_stays_and_every_value_of_two(
    parameters: int, size: int, kept: int
) -> None:
    names = "abc"[:parameters]
    cases: Any = [
        SimpleNamespace(callspec=SimpleNamespace(params=dict(zip(names, values, strict=True))))
        for values in product(range(3), repeat=parameters)
    ]

    left = [case for case in cases if not any(case is other for other in _left_out(cases))]

    found = {
        tuple((name, case.callspec.params[name]) for name in chosen)
        for case in left
        for chosen in combinations(names, size)
    }
    assert len(found) == len(list(combinations(names, size))) * 3**size
    assert len(left) <= kept + 2 * (size > 1)
