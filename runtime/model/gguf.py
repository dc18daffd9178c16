"""GGUF files, as llama.cpp uses them, become OpenVINO model directories: converted once and kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import openvino_genai
import platformdirs

from agentrt.errors import ModelFormatError

from .gguf_reader import GGUFHeader, read_gguf_header
from .openvino_core import load_on_own_thread, openvino_core, openvino_message

_FORMAT: Final = 2
"""Another conversion of the same file gets another name."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 64 * 2**10


def convert_gguf(file: Path, cache_folder: Path | None = None) -> Path:
    """The model directory of a GGUF file, converted unless it has been before.

    It is kept in ``cache_folder``, by default in the user's cache folder, under a name that depends on what
    the file contains, not on where it lies. Conversion needs the disk space of the model once more, and is
    atomic: another process finds all of it or none.

    Raises:
        ModelFormatError: the file is damaged, OpenVINO cannot convert such a model, or there is no space.
    """
    header = read_gguf_header(file)
    cache = cache_folder or platformdirs.user_cache_path("agentrt") / "models"
    directory = cache / f"{file.stem}-{_fingerprint(file, header)}"
    if (directory / "config.json").is_file():
        return directory
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".converting-") as temporary:
            made = Path(temporary) / "model"
            made.mkdir()
            _convert(file, header, made)
            try:
                made.rename(directory)
            except OSError:
                if not directory.is_dir():  # else another process was quicker
                    raise
    except OSError as error:
        raise ModelFormatError(
            f"{file} cannot be converted in {cache} ({error.strerror}). Free disk space there, or make it "
            "writable."
        ) from error
    return directory


def _convert(file: Path, header: GGUFHeader, made: Path) -> None:
    """Let OpenVINO GenAI write its model beside the file, which for its sake lies in ``made``."""
    linked = made / "model.gguf"
    try:
        linked.symlink_to(file.resolve())
    except OSError:  # Windows asks for a privilege
        shutil.copyfile(file, linked)
    try:
        load_on_own_thread(lambda: openvino_genai.LLMPipeline(str(linked), "CPU", enable_save_ov_model=True))
    except RuntimeError as error:
        raise ModelFormatError(
            f"OpenVINO cannot convert {file}: {openvino_message(error)} It supports the architectures llama "
            "(Mistral's too), qwen2 and qwen3; export other models by optimum-cli export openvino."
        ) from error
    finally:
        linked.unlink()
    _share_zero_points(made / "openvino_model.xml")
    metadata, architecture = header.metadata, header.architecture
    config = {
        "model_type": architecture,
        "max_position_embeddings": metadata.get(f"{architecture}.context_length"),
        "eos_token_id": [
            metadata[key]
            for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
            if key in metadata
        ],
    }
    # Written last: a directory that has it is complete.
    (made / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _share_zero_points(graph: Path) -> None:
    """Give each matrix one zero point where the converter wrote an equal one for every 32 weights.

    The symmetric quantisations (Q8_0) have no zero points; the converter makes them up. What is computed
    stays the same, and a decode step, which is bound by what it reads, got 6 % shorter.
    """
    model = openvino_core().read_model(graph)
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Constant" or node.get_output_element_type(0) != ov.Type.u8:
            continue
        shape = node.get_output_shape(0)
        if len(shape) == 3 and shape[2] == 1 < shape[1] and np.ptp(node.data) == 0:
            shared = opset.constant(node.data[:1, :1])
            shared.set_friendly_name(node.get_friendly_name())
            node.output(0).replace(shared.output(0))
    # The old file is mapped as long as the model lives: write beside it, then replace it.
    written = graph.with_stem("shared")
    ov.save_model(model, written, compress_to_fp16=False)
    del model, node
    for suffix in (".bin", ".xml"):
        written.with_suffix(suffix).replace(graph.with_suffix(suffix))


def _fingerprint(file: Path, header: GGUFHeader) -> str:
    """A hash of the header, of samples of the weights, and of what converts them.

    Another training, or another quantisation, changes weights everywhere: samples from all over the file tell
    models apart without reading gigabytes each time one is opened.
    """
    size = file.stat().st_size
    digest = hashlib.sha256(f"{_FORMAT} {openvino_genai.__version__} {size}".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(header.size))
        for sample in range(_SAMPLES):
            stream.seek(header.size + (size - header.size) * sample // _SAMPLES)
            digest.update(stream.read(_SAMPLE_BYTES))
        stream.seek(-min(size, _SAMPLE_BYTES), os.SEEK_END)
        digest.update(stream.read())
    return digest.hexdigest()[:32]
