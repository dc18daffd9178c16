"""The recipe needs PyTorch, which nothing that runs a model needs: without it these tests do not run."""

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the train extra is not installed")

from agentrt.runtime.nano import MODEL_DIRECTORY  # noqa: E402
from training.nano.markup import NAME_OPENS  # noqa: E402
from training.nano.recipe import induction  # noqa: E402
from training.nano.recipe.network import Network  # noqa: E402
from training.nano.recipe.recipes import DRAFT, MAIN  # noqa: E402
from training.nano.recipe.rows import NEXT_WORD_HEAD, WORD_HEAD, batches, load_tokenizer  # noqa: E402
from training.nano.recipe.training import pointer_loss, train  # noqa: E402

# In small steps, for a CPU.
PHASES = [dataclasses.replace(phase, tokens_per_step=4096) for phase in MAIN.phases]
TOKENIZER = MODEL_DIRECTORY / "tokenizer.json"


def test_a_network_can_copy_before_it_is_trained() -> None:
    torch.manual_seed(0)
    network = Network(MAIN.network)
    induction.initialise(network)
    once = torch.randint(300, 2000, (4, 256))
    with torch.no_grad():
        hidden, _ = network(torch.cat((once, once), 1), torch.zeros(0, 3, dtype=torch.int64))
        predicted = network.logits(hidden).argmax(-1)
    assert (predicted[:, 260:-1] == once[:, 5:]).float().mean() > 0.25


def test_batches_are_deterministic_and_learn_only_what_the_assistant_writes() -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    for phase in PHASES:
        (ids, weights, _), (again, *_) = (next(batches(tokenizer, phase, 3)) for _ in range(2))
        assert torch.equal(ids, again)
        assert ids.shape == weights.shape
        assert ids.shape[0] * (ids.shape[1] - 1) == 4096
        learned = tokenizer.decode(ids[0][weights[0] > 0].tolist(), skip_special_tokens=False)
        assert "<|im_start|>" not in learned
        assert "<|im_end|>" in learned


def test_pointers_lead_from_where_a_word_is_due_to_where_it_was_said() -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    name_opens, tools_end = tokenizer.token_to_id(NAME_OPENS), tokenizer.token_to_id("</tools>")
    for phase in PHASES:
        ids, weights, pointers = next(batches(tokenizer, phase, 3))
        names = words = 0
        for row, head, due, said in pointers.tolist():
            if head != WORD_HEAD:
                continue
            words += 1
            assert said <= due
            assert weights[row, due + 1] > 0
            assert ids[row, due + 1] == ids[row, said]
            if ids[row, due] == name_opens:
                names += 1
                assert ids[row, said - 1] == name_opens
                assert said < ids[row].tolist().index(tools_end)
        assert 0 < names < words < len(pointers)


def test_at_the_end_of_a_copied_word_a_pointer_leads_to_what_follows_it_where_it_was_said() -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    space = tokenizer.encode(" ", add_special_tokens=False).ids[0]
    ids, weights, pointers = next(batches(tokenizer, PHASES[1], 3))
    goes_on = set()
    for row, head, end, said in pointers.tolist():
        if head != NEXT_WORD_HEAD:
            continue
        tokens = ids[row].tolist()
        spaced = tokens[said - 1] == space
        assert tokens[said - 1 - spaced] == tokens[end]
        assert weights[row, end + 1] == 2.0
        goes_on.add(tokens[end + 1] == space)
        if tokens[end + 1] == space and spaced:
            # A phrase that goes on goes on with that word; an answer may go on with words of its own.
            goes_on.add(tokens[end + 2] == tokens[said])
    assert goes_on == {True, False}


def test_the_pointer_loss_is_nothing_when_every_look_is_right_and_large_when_none_is() -> None:
    looks = torch.full((2, 8), -20.0)
    looks[0, 3] = looks[1, 5] = 20.0
    assert pointer_loss(looks, torch.tensor([3, 5])) < 1e-3
    assert pointer_loss(looks, torch.tensor([5, 3])) > 10
    assert pointer_loss(looks[:0], torch.zeros(0, dtype=torch.int64)) == 0


def test_the_pointing_head_sees_the_past_alone() -> None:
    torch.manual_seed(0)
    network = Network(DRAFT.network)
    with torch.no_grad():
        _, looks = network(torch.randint(300, 2000, (1, 128)), torch.tensor([[0, WORD_HEAD, 40]]))
    assert looks.shape == (1, 128)
    assert looks[0, :41].isfinite().all()
    assert (looks[0, 41:] == float("-inf")).all()


def test_training_is_deterministic(tmp_path: Path) -> None:
    phase = dataclasses.replace(DRAFT.phases[1], tokens=3 * 4096, tokens_per_step=4096)
    recipe = dataclasses.replace(DRAFT, seed=5, phases=(phase,))
    for name in ("first", "second"):
        train(recipe, TOKENIZER, tmp_path / f"{name}.pt", print)
    first, second = torch.load(tmp_path / "first.pt"), torch.load(tmp_path / "second.pt")
    assert all(torch.equal(first[name], second[name]) for name in first)
