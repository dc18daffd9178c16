from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.context.block_hashes import BlockHashes, PrefixSalts

tokens = st.lists(st.integers(0, 2**31), max_size=20)


@given(tokens, tokens, st.integers(1, 4))
def test_equal_hashes_mean_equal_prefixes(one: list[int], two: list[int], size: int) -> None:
    first, second = BlockHashes(b"salt", size), BlockHashes(b"salt", size)
    pairs = list(
        zip(first.compute(one, len(one) // size), second.compute(two, len(two) // size), strict=False)
    )
    for blocks, (left, right) in enumerate(pairs, 1):
        assert (left == right) == (one[: blocks * size] == two[: blocks * size])


@given(tokens, st.data())
def test_extending_a_chain_does_not_change_it(all_tokens: list[int], data: st.DataObject) -> None:
    grown = BlockHashes(b"salt", 2)
    for length in sorted(data.draw(st.lists(st.integers(0, len(all_tokens))))):
        grown.compute(all_tokens[:length], length // 2)
    blocks = len(all_tokens) // 2
    assert grown.compute(all_tokens, blocks) == BlockHashes(b"salt", 2).compute(all_tokens, blocks)


def test_an_incomplete_block_has_no_hash() -> None:
    """A hash of the first half would stand for every continuation."""
    hashes = BlockHashes(b"salt", 4)
    with pytest.raises(AssertionError, match="2 blocks"):
        hashes.compute([1, 2, 3, 4, 5], 2)
    assert hashes.compute([1, 2, 3, 4, 5, 6, 7, 8], 2) == BlockHashes(b"salt", 4).compute([*range(1, 9)], 2)


def test_no_two_apps_share_a_hash() -> None:
    salts = PrefixSalts()
    assert salts.salt_for("mail") == salts.salt_for("mail") != salts.salt_for("notes")
    assert PrefixSalts().salt_for("mail") != salts.salt_for("mail"), "salts differ between processes"
    mail, notes = (BlockHashes(salts.salt_for(app), 2).compute([1, 2, 3, 4], 2) for app in ("mail", "notes"))
    assert not set(mail) & set(notes)
