"""No way to make or change settings lets pydantic's own error through; their numbers are finite."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt import SpeculationConfig
from agentrt.config import Budget, TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.finite import is_finite, shown
from agentrt.runtime import PoolConfig, RuntimeConfig
from agentrt.runtime.serving.gateway import GatewayConfig
from agentrt.runtime.serving.server import ServerConfig
from agentrt.settings import Settings
from agentrt.tools.speculable_tool import SpeculableOptions

BAD: list[tuple[type[Settings], dict[str, Any]]] = [
    (SpeculationConfig, {"max_speculations": 0}),
    (SpeculationConfig, {"turn_ahead": {"depth": 0}}),
    (Budget, {"runs": -1}),
    (TurnAhead, {"unknown": 1}),
    (SpeculableOptions, {"ttl": "soon"}),
    (SpeculableOptions, {"ttl": math.nan}),
    (SpeculableOptions, {"timeout": math.inf}),
    (SpeculationConfig, {"wasted_second_weight": math.nan}),
    (Budget, {"seconds": math.inf}),
    (PoolConfig, {"idle_unload_s": math.nan}),
    (RuntimeConfig, {"promote_after_s": math.inf}),
    (ServerConfig, {"stalled_s": math.nan}),
    (ServerConfig, {"write_timeout_s": math.inf}),
    (RuntimeConfig, {"memory_bytes": "1"}),
    (RuntimeConfig, {"memory_bytes": 10**28}),
    (RuntimeConfig, {"prefill_chunk_tokens": 8193}),
    (RuntimeConfig, {"profile_folder": 1}),
    (ServerConfig, {"port": 70_000}),
    (ServerConfig, {"max_requests": 0}),
    (GatewayConfig, {"upstream": 1}),
    (GatewayConfig, {}),
]

GOOD: dict[type[Settings], dict[str, Any]] = {GatewayConfig: {"upstream": "http://127.0.0.1:8000"}}

WAYS: list[Callable[[type[Settings], dict[str, Any]], object]] = [
    lambda kind, bad: kind(**bad),
    lambda kind, bad: kind.model_validate(bad),
    lambda kind, bad: kind.model_validate_json(json.dumps(bad)),
]


@pytest.mark.parametrize(("kind", "bad"), BAD)
@pytest.mark.parametrize("make", WAYS, ids=["call", "model_validate", "model_validate_json"])
def test_bad_settings_are_a_configuration_error(
    make: Callable[[type[Settings], dict[str, Any]], object], kind: type[Settings], bad: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=kind.called or kind.__name__):
        make(kind, bad)


@pytest.mark.parametrize(("kind", "bad"), [(kind, bad) for kind, bad in BAD if bad])
def test_a_copy_is_validated(kind: type[Settings], bad: dict[str, Any]) -> None:
    settings = kind(**GOOD.get(kind, {}))

    with pytest.raises(ConfigurationError):
        settings.model_copy(update=bad)


def test_a_copy_has_what_was_changed_and_what_was_not() -> None:
    config = RuntimeConfig(threads=2)

    changed = config.model_copy(update={"memory_bytes": 1})

    assert (changed.threads, changed.memory_bytes) == (2, 1)
    assert config.model_copy() == config != changed


@pytest.mark.parametrize("folder", ["profiles", Path("profiles")])
def test_the_profile_folder_is_a_path_or_a_string(folder: str | Path) -> None:
    assert RuntimeConfig(profile_folder=folder).profile_folder == Path("profiles")


@pytest.mark.parametrize("kind", [SpeculationConfig, RuntimeConfig, ServerConfig])
def test_settings_are_immutable(kind: type[Settings]) -> None:
    settings = kind()

    with pytest.raises(ConfigurationError, match="model_copy"):
        setattr(settings, next(iter(kind.model_fields)), 1)


@pytest.mark.parametrize("make", WAYS, ids=["call", "model_validate", "model_validate_json"])
def test_an_error_in_settings_within_settings_is_one_sentence_with_its_path(
    make: Callable[[type[Settings], dict[str, Any]], object],
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make(SpeculationConfig, {"budget": {"runs": -5}})

    assert str(raised.value) == (
        "SpeculationConfig cannot be used as given: budget.runs: Input should be greater than or equal to 0. "
        "Correct these settings."
    )


def test_an_error_of_several_settings_is_one_sentence_without_a_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        RuntimeConfig(history_folder=tmp_path, drafts=False)

    assert str(raised.value) == (
        "RuntimeConfig cannot be used as given: history_folder keeps answers to draft from. "
        "Set drafts=True, or leave it out. Correct these settings."
    )


@pytest.mark.parametrize("value", [0, -1, 1.5, 5e-324, -1e308, 2**1023])
def test_numbers_that_a_float_can_hold(value: float) -> None:
    assert is_finite(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**1024, True, "1", None, [1]])
def test_other_values(value: Any) -> None:
    assert not is_finite(value)
    assert not is_finite(-(10**5000))


def test_a_value_is_shown_in_one_line_of_bounded_length() -> None:
    assert shown("x") == "'x'"
    assert len(shown("x" * 10**6)) < 100
    assert shown(10**5000) == "an integer of thousands of digits"
