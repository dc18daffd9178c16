"""Mutations change something, and are the same for the same seed."""

from __future__ import annotations

import json
import random

from agentrt.bench.attack.client_bodies import record_bodies
from agentrt.bench.attack.mutations import mutated_bytes, mutated_value, to_json

BODY = {"messages": [{"role": "user", "content": "Hello!"}], "n": 1, "stop": ["a"]}


def test_a_mutation_leaves_the_original_and_differs_from_it() -> None:
    chance, before = random.Random(0), json.dumps(BODY)
    changed = [to_json(mutated_value(BODY, chance)) for _ in range(300)]
    assert json.dumps(BODY) == before
    assert len(set(changed)) > 150
    assert [to_json(mutated_value(BODY, random.Random(7))) for _ in range(2)] == [
        to_json(mutated_value(BODY, random.Random(7)))
    ] * 2


def test_bytes_are_changed_in_every_way() -> None:
    chance, body = random.Random(0), to_json(BODY)
    changed = [mutated_bytes(body, chance) for _ in range(300)]
    assert len(set(changed)) > 150
    assert any(len(each) < len(body) for each in changed)
    assert any(b"1e999" in each for each in changed)
    assert any(b"[[[[" in each for each in changed)


def test_bodies_are_those_of_the_clients() -> None:
    recorded = record_bodies()
    fields = {name for each in recorded for name in json.loads(each.body)}
    paths = {f"/v1/{route}" for route in ("chat/completions", "completions", "embeddings", "responses")}
    assert {each.path for each in recorded} == paths
    assert fields >= {"tools", "response_format", "stream_options", "text", "logit_bias", "prediction"}
