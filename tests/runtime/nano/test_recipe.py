"""The recipe needs PyTorch, which nothing that runs a model needs: without it these tests do not run."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the train extra is not installed")

from agentrt.runtime.nano.recipe import induction  # noqa: E402
from agentrt.runtime.nano.recipe.network import SIZES, BlockedCausalAttention, Network  # noqa: E402
from agentrt.runtime.nano.recipe.tokenizer import train_tokenizer  # noqa: E402
from agentrt.runtime.nano.recipe.training import Recipe, batches, train  # noqa: E402


def test_blocked_attention_equals_the_textbook_forward_and_backward() -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 3, 256, 64, requires_grad=True)
    key, value = torch.randn(2, 256, 64, requires_grad=True), torch.randn(2, 256, 64, requires_grad=True)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key[:, None].expand(-1, 3, -1, -1), value[:, None].expand(-1, 3, -1, -1), is_causal=True
    )
    actual = BlockedCausalAttention.apply(query, key, value)
    torch.testing.assert_close(actual, expected)
    weight = torch.randn_like(actual)
    ours = torch.autograd.grad((actual * weight).sum(), (query, key, value))
    theirs = torch.autograd.grad((expected * weight).sum(), (query, key, value))
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


def test_a_network_can_copy_before_it_is_trained() -> None:
    torch.manual_seed(0)
    network = Network(SIZES["main"])
    induction.initialise(network)
    once = torch.randint(300, 2000, (4, 256))
    with torch.no_grad():
        predicted = network.logits(network.hidden(torch.cat((once, once), 1))).argmax(-1)
    assert (predicted[:, 260:-1] == once[:, 5:]).float().mean() > 0.25


def test_batches_are_deterministic_and_learn_only_what_the_assistant_writes() -> None:
    tokenizer = train_tokenizer(dialogues=300)
    (ids, weights), (again, _) = next(batches(tokenizer, 3)), next(batches(tokenizer, 3))
    assert torch.equal(ids, again)
    assert ids.shape == weights.shape
    learned = tokenizer.decode(ids[0][weights[0] > 0].tolist(), skip_special_tokens=False)
    assert "<|im_start|>" not in learned
    assert "<|im_end|>" in learned


def test_training_is_deterministic_and_lowers_the_loss(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(dialogues=300)
    recipe = Recipe("draft", tokens=8 * 4096, seed=5)
    for name in ("first", "second"):
        train(recipe, tokenizer, tmp_path / f"{name}.pt", lambda _: None)
    first, second = torch.load(tmp_path / "first.pt"), torch.load(tmp_path / "second.pt")
    assert all(torch.equal(first[name], second[name]) for name in first)
