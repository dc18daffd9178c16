"""What is learned, and what of it is kept."""

from __future__ import annotations

from agentrt.speculators.pattern.memory import ParameterStats, PatternMemory


def test_memory_is_bounded() -> None:
    memory = PatternMemory({})
    for number in range(4200):
        memory.count(f"tool{number}", {"x": number}, [number])
    assert len(memory.parameters) == len(memory.followers) == 4096
    assert memory.changed_parameters <= memory.parameters.keys()
    for number in range(1000):
        memory.count("tool", {"x": f"value {number}"}, [1])
    stats = memory.parameter("tool", "x")
    assert max(len(stats.seen), len(stats.shapes), len(stats.constants)) <= 128
    assert len(memory.followers[1]) <= 128


def test_only_values_that_come_again_and_are_no_secrets_are_kept() -> None:
    stats = ParameterStats()
    stats.count("city", "Oslo")
    assert not stats.constants
    stats.count("city", "Oslo")
    assert list(stats.constants) == ['"Oslo"']
    for name in ("password", "api_key", "auth_token", "client_secret"):
        secret = ParameterStats()
        secret.count(name, "x1")
        secret.count(name, "x1")
        assert not secret.constants, name
