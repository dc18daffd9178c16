"""A tiny BERT with random weights and a WordPiece tokenizer, as ``optimum-cli`` would have exported them."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino_tokenizers.tokenizer_pipeline import (
    AddToken,
    CaseFoldStep,
    CombineSegmentsStep,
    NormalizeUnicode,
    PaddingStep,
    RegexSplitStep,
    Sequence,
    SpecialTokensSplit,
    TokenizerPipeline,
    WordPieceTokenizationStep,
)
from openvino_tokenizers.utils import change_outputs_type

HIDDEN = 16
POSITIONS = 32
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["oslo", "bergen", "rain", "sun", "the", "weather", "in", "is", "cat", "dog"]
VOCABULARY = [
    *SPECIAL,
    *WORDS,
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase),
    *string.punctuation,
]


def write_tiny_bert(folder: Path, pooling: str | None = "mean", **config: Any) -> Path:
    """Write the model to ``folder``; ``config`` are more fields of its ``config.json``."""
    folder.mkdir(parents=True)
    ov.save_model(_bert(), folder / "openvino_model.xml", compress_to_fp16=False)
    ov.save_model(_tokenizer(), folder / "openvino_tokenizer.xml")
    stated = {"model_type": "bert", "max_position_embeddings": POSITIONS} | config
    (folder / "config.json").write_text(json.dumps(stated))
    if pooling is not None:
        modes = {"cls": "cls_token", "mean": "mean_tokens", "last": "lasttoken"}
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({f"pooling_mode_{mode}": name == pooling for name, mode in modes.items()})
        )
    return folder


def _tokenizer() -> ov.Model:
    pipeline = TokenizerPipeline(vocab=VOCABULARY)
    cls, sep = (AddToken(token=token, _token_id=VOCABULARY.index(token)) for token in ("[CLS]", "[SEP]"))
    pipeline.add_steps(
        [
            SpecialTokensSplit.from_string_iter(SPECIAL),
            NormalizeUnicode("NFD"),
            CaseFoldStep(),
            *RegexSplitStep.bert_splitter(),
            WordPieceTokenizationStep(VOCABULARY),
            CombineSegmentsStep([cls, Sequence(), sep]),
            PaddingStep(_token_id=0),
        ]
    )
    model = change_outputs_type(pipeline.get_tokenizer_ov_subgraph(), ov.Type.i64)
    for role, token in (("pad", 0), ("eos", 3), ("bos", 2)):
        model.set_rt_info(token, f"{role}_token_id")
    return model


def _bert() -> ov.Model:
    """One layer: embeddings of words and positions, attention to all tokens, a feed-forward network."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return ops.constant((random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))

    def norm(value: Any) -> Any:
        return ops.mvn(value, ops.constant(np.array([-1], np.int64)), True, 1e-6, "inside_sqrt")

    ids, mask, types = (
        ops.parameter([-1, -1], np.int64, name=name)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    for parameter in (ids, mask, types):
        parameter.output(0).tensor.set_names({parameter.friendly_name})
    zero = ops.constant(np.int64(0))
    length = ops.gather(ops.shape_of(ids), ops.constant(np.int64(1)), zero)
    positions = ops.range(zero, length, ops.constant(np.int64(1)), "i64")
    hidden = norm(
        ops.add(
            ops.add(
                ops.gather(weights(len(VOCABULARY), HIDDEN), ids, zero),
                ops.gather(weights(2, HIDDEN), types, zero),
            ),
            ops.gather(weights(POSITIONS, HIDDEN), positions, zero),
        )
    )
    query, key, value = (ops.matmul(hidden, weights(HIDDEN, HIDDEN), False, False) for _ in range(3))
    unmasked = ops.unsqueeze(ops.convert(mask, "f32"), ops.constant(np.int64(1)))
    padding = ops.multiply(ops.subtract(unmasked, ops.constant(np.float32(1))), ops.constant(np.float32(1e4)))
    scores = ops.add(ops.matmul(query, key, False, True), padding)
    hidden = norm(ops.add(hidden, ops.matmul(ops.softmax(scores, -1), value, False, False)))
    inner = ops.gelu(ops.matmul(hidden, weights(HIDDEN, 4 * HIDDEN), False, False), "erf")
    hidden = norm(ops.add(hidden, ops.matmul(inner, weights(4 * HIDDEN, HIDDEN), False, False)))
    result = ops.result(hidden, "last_hidden_state")
    result.output(0).tensor.set_names({"last_hidden_state"})
    return ov.Model([result], [ids, mask, types], "tiny_bert")
