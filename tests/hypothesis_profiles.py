"""How thorough a run is: examples of properties, and cases of matrices.

``local`` is for one's own machine: 25 examples and the cases of :func:`thin_out`. ``ci``, where ``CI`` is set
(``make check`` sets it), has 100 examples, every case, and a database of examples that failed, in the user's
cache folder, with which the next run begins. ``long``, by ``make test-long``, has 20 times as many examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

_USUAL_EXAMPLES = 100

_failed = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrt-hypothesis"
# How long an example takes depends on what else the machine does, so none has a deadline.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=_USUAL_EXAMPLES)
settings.register_profile("local", _untimed, max_examples=_USUAL_EXAMPLES // 4)
settings.register_profile(
    "ci", _untimed, database=DirectoryBasedExampleDatabase(_failed), derandomize=False, print_blob=True
)
settings.register_profile("long", _untimed, max_examples=20 * _USUAL_EXAMPLES, print_blob=True)
settings.load_profile("ci" if "CI" in os.environ else "local")


def examples(number: int, **others: Any) -> settings:
    """Return settings for ``number`` examples in CI, a quarter locally, 20 times as many in the long run.

    For tests that need another number of examples than Hypothesis's 100. ``others`` are further settings.
    """
    return settings(max_examples=max(1, number * settings().max_examples // _USUAL_EXAMPLES), **others)


def first_of(values: Iterable[Any], number: int = 1) -> list[Any]:
    """Return parameters of which a local run tries the first ``number``, and ``make check`` all others."""
    every = list(values)
    return every[:number] + [pytest.param(each, marks=pytest.mark.check) for each in every[number:]]


def thin_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that a local run leaves out of functions with the marker ``matrix``.

    Of a function with three or more parameters that vary every pair of values stays, of one with two every
    value.
    """
    if settings.get_current_profile_name() != "local":
        return []
    functions: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("matrix"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for cases in functions.values() for item in _left_out(cases)]


def _left_out(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cases without which the others still cover all single values, or all pairs."""
    # Not by callspec.indices, which count the combinations of stacked decorators.
    values = [{name: repr(value) for name, value in case.callspec.params.items()} for case in cases]
    varying = [name for name in values[0] if len({each[name] for each in values}) > 1]
    size = 2 if len(varying) > 2 else 1
    covers = [
        {tuple((n, each[n]) for n in names) for names in combinations(varying, size)} for each in values
    ]
    waiting = set().union(*covers)
    left_out = dict(enumerate(cases))
    while waiting:
        best = max(left_out, key=lambda number: len(covers[number] & waiting))
        waiting -= covers[best]
        del left_out[best]
    return list(left_out.values())
