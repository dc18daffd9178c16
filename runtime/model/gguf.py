"""Converts GGUF files, as llama.cpp uses them, to OpenVINO model directories, once per file."""

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

_CONVERSION: Final = 2
"""Part of the directory's name. Increase it when the result of a conversion changes."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 64 * 2**10


def convert_gguf(file: Path, cache_folder: Path | None = None) -> Path:
    """Return the model directory of a GGUF file, converting the file unless that was done before.

    The directory is kept in ``cache_folder``, by default the user's cache folder. Its name depends on the
    content of the file, not on its path. Conversion needs as much disk space as the model, and is atomic:
    other processes find a complete directory or none.

    Raises:
        ModelFormatError: the file is damaged, OpenVINO cannot convert the model, or the disk is full.
    """
    header = read_gguf_header(file)
    cache = cache_folder or platformdirs.user_cache_path("agentrt") / "models"
    directory = cache / f"{file.stem}-{_fingerprint(file, header)}"
    if (directory / "config.json").is_file():
        return directory
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".converting-") as temporary:
            target = Path(temporary) / "model"
            target.mkdir()
            _convert(file, header, target)
            try:
                target.rename(directory)
            except OSError:
                if not directory.is_dir():  # otherwise another process has finished first
                    raise
    except OSError as error:
        raise ModelFormatError(
            f"{file} cannot be converted in {cache} ({error.strerror}). Free disk space there, or make it "
            "writable."
        ) from error
    return directory


def _convert(file: Path, header: GGUFHeader, target: Path) -> None:
    """Write the model directory ``target``.

    OpenVINO GenAI writes next to the file it reads, so the file is linked there while it converts.
    """
    linked = target / "model.gguf"
    try:
        linked.symlink_to(file.resolve())
    except OSError:  # Windows requires a privilege for symbolic links
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
    _share_zero_points(target / "openvino_model.xml")
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
    # Written last: a directory with this file is complete.
    (target / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _share_zero_points(graph: Path) -> None:
    """Replace the zero points of a matrix by a single one if the converter wrote the same for all weights.

    Symmetric quantisations (Q8_0) have no zero points; the converter adds one for every 32 weights. Results
    stay the same, and a decode step, which is bound by memory bandwidth, takes 6 % less time.
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
    # The old file stays mapped while the model exists: write another file, then replace the old one.
    written = graph.with_stem("shared")
    ov.save_model(model, written, compress_to_fp16=False)
    del model, node
    for suffix in (".bin", ".xml"):
        written.with_suffix(suffix).replace(graph.with_suffix(suffix))


def _fingerprint(file: Path, header: GGUFHeader) -> str:
    """Hash the header, samples of the weights, and the versions of what converts them.

    Training and quantisation change weights everywhere, so that samples from all over the file distinguish
    models without reading gigabytes on each open.
    """
    size = file.stat().st_size
    digest = hashlib.sha256(f"{_CONVERSION} {openvino_genai.__version__} {size}".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(header.size))
        for sample in range(_SAMPLES):
            stream.seek(header.size + (size - header.size) * sample // _SAMPLES)
            digest.update(stream.read(_SAMPLE_BYTES))
        stream.seek(-min(size, _SAMPLE_BYTES), os.SEEK_END)
        digest.update(stream.read())
    return digest.hexdigest()[:32]
