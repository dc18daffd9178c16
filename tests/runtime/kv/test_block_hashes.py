from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.block_hashes import BlockHashes, PrefixSalts

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


def test_public_blocks_are_the_same_for_all_apps_and_no_others_are() -> None:
    salts = PrefixSalts()
    tokens = [*range(10)]

    def hashes(app: str, public: int) -> list[bytes]:
        return BlockHashes(salts.salt_for(app), 2, salts.shared, public).compute(tokens, 5)

    mail, notes = hashes("mail", 7), hashes("notes", 7)  # the fourth block is public in part only
    assert mail[:3] == notes[:3]
    assert not set(mail[3:]) & set(notes[3:])
    assert not set(hashes("mail", 0)) & {*mail, *notes, *hashes("notes", 0)}
    assert hashes("mail", 0) == BlockHashes(salts.salt_for("mail"), 2).compute(tokens, 5)
    assert hashes("mail", 100) == hashes("notes", 100)
    assert salts.shared not in (salts.salt_for(app) for app in ("", "public", "shared"))


def test_a_renewed_salt_is_that_of_one_app_and_can_be_restored() -> None:
    salts = PrefixSalts(b"secret")
    before = {app: salts.salt_for(app) for app in ("mail", "notes")}
    renewals = {"mail": salts.renew("mail")}
    assert salts.salt_for("mail") not in before.values()
    assert salts.salt_for("notes") == before["notes"]
    assert [salts.is_current("mail", salt) for salt in (before["mail"], salts.salt_for("mail"))] == [
        False,
        True,
    ]
    assert PrefixSalts(b"secret", renewals).salt_for("mail") == salts.salt_for("mail")
    assert PrefixSalts(b"secret").salt_for("mail") == before["mail"]
    assert salts.renew("mail") != renewals["mail"]
