"""Hypothesis profiles: fixed examples where ``CI`` is set, new ones elsewhere, and many in the long run."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

_USUAL_EXAMPLES = 100

# How long an example takes depends on what else the machine does, so none has a deadline.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("local", _untimed)
settings.register_profile("ci", _untimed, database=None, derandomize=True, print_blob=True)
settings.register_profile("long", _untimed, max_examples=20 * _USUAL_EXAMPLES, print_blob=True)
settings.load_profile("ci" if "CI" in os.environ else "local")


def examples(number: int, **others: Any) -> settings:
    """Return settings for ``number`` examples, times 20 in the long run.

    For tests that need another number of examples than Hypothesis's 100. ``others`` are further settings.
    """
    return settings(max_examples=number * settings().max_examples // _USUAL_EXAMPLES, **others)
