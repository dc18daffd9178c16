"""Fingerprints tell apart whatever keys and values depend on."""

from __future__ import annotations

from pathlib import Path

from agentrt.runtime.contexts.opening import kv_fingerprint

SIZE = 1_000_000


def test_equal_models_and_facts_have_equal_fingerprints(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.gguf").write_bytes(bytes(SIZE))
    first, second = (tmp_path / name / "model.gguf" for name in "ab")
    assert kv_fingerprint([first], precision="u8") == kv_fingerprint([second], precision="u8")


def test_every_fact_counts(tmp_path: Path) -> None:
    model, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    model.write_bytes(bytes(SIZE))
    other.write_bytes(bytes(SIZE))
    facts = [
        kv_fingerprint([model]),
        kv_fingerprint([other]),
        kv_fingerprint([model, other]),
        kv_fingerprint([model], precision="u8"),
        kv_fingerprint([model], precision="f16"),
        kv_fingerprint([model], precision="u8", tokenizer=b"1"),
        kv_fingerprint([model], precision="u8", tokenizer=b"2"),
        kv_fingerprint([model], layout=(2, 128)),
        kv_fingerprint([model], layout=(2, 64)),
    ]
    model.write_bytes(bytes(SIZE + 1))
    facts.append(kv_fingerprint([model]))
    for at in (0, SIZE // 2, SIZE - 1):
        changed = bytearray(SIZE)
        changed[max(0, at - 9000) : at + 9000] = b"x" * len(changed[max(0, at - 9000) : at + 9000])
        model.write_bytes(changed)
        facts.append(kv_fingerprint([model]))
    assert len(set(facts)) == len(facts)


def test_short_files_are_read_whole(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    found = set()
    for at in range(10):
        model.write_bytes(bytes(at) + b"x" + bytes(9 - at))
        found.add(kv_fingerprint([model]))
    model.write_bytes(b"")
    found.add(kv_fingerprint([model]))
    assert len(found) == 11
