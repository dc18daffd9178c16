"""The tokens of long texts, which are tokenized in parts."""

from __future__ import annotations

from pathlib import Path

from agentrt.runtime import LocalRuntime

ROOT = Path(__file__).parents[2]


def test_long_texts_have_the_tokens_of_their_parts(runtime: LocalRuntime) -> None:
    tokenizer = runtime._tokenizer
    files = [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("runtime/*.py")), *sorted(ROOT.glob("*.md"))]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    whole = tokenizer._tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
    assert len(list(tokenizer._parts(text))) > 5
    assert tokenizer.encode(text) == whole
