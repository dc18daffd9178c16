"""Model directories on disk: finds one, checks that its files are complete, and reads its configuration.

All checks come before OpenVINO reads a file: there a damaged file may be undefined behaviour, not an error.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.errors import AgentRTError, ModelFormatError, ModelNotFoundError

from ..files.checksums import check_files, read_checksums
from ..files.graph_files import EXPORT_HINT, check_graph
from ..nano import DRAFT_DIRECTORY, MODEL_DIRECTORY
from .hub.names import WebAddress, parse_name
from .hub.pulled import find_pulled
from .json_files import read_json

if TYPE_CHECKING:
    from .native.library import NativeLibrary

_EMBEDDED = {"nano": MODEL_DIRECTORY, "nano-draft": DRAFT_DIRECTORY}
_KNOWN = ", ".join(map(repr, _EMBEDDED))
_GRAPHS = ("openvino_model", "openvino_tokenizer", "openvino_detokenizer")
_NAMED_FILES = 5
"""How many files of a directory an error names."""
_LONGEST_CONTEXT = 2**31
_WEIGHTS = "openvino_model.bin"


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """A complete OpenVINO LLM directory, and what its JSON files say."""

    path: Path
    model_id: str
    """The name of the embedded model, of the GGUF file that was opened, or of the directory."""
    context_length: int
    """The most tokens of prompt and answer together (``max_position_embeddings``)."""
    end_token_ids: frozenset[int]
    """Tokens that end an answer, from ``generation_config.json`` or ``config.json``."""
    conversion: Conversion | None = None
    """Where the directory comes from, if a GGUF file was opened."""
    opened_as: str | None = None
    """The name or path by which it was opened; None if it was not opened by name."""
    native: bool = False
    """Whether its graph has paged attention, and may have operations of
    :mod:`agentrt.runtime.model.native.library`."""
    keeps_weights: bool = False
    """Whether all its matrices are as they are in a GGUF file, so that these operations multiply them all."""

    @property
    def graph(self) -> Path:
        """Path of the LLM's graph; its weights are in the ``.bin`` file next to it."""
        return self.path / "openvino_model.xml"


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What is known of a model before it is opened."""

    model_id: str
    """As :attr:`ModelDirectory.model_id`."""
    weights_bytes: int
    """Bytes of its weights on disk."""


def summarize_model(model: str | os.PathLike[str]) -> ModelSummary:
    """Return a model's name and size, without opening or converting it.

    Raises:
        ModelNotFoundError, ModelFormatError: as :func:`open_model_directory`.
    """
    name = _name(model)
    path = find_model(name)
    with explain_unreadable(path):
        if path.is_file() and _is_gguf(path):
            from .gguf.file_format import read_source

            source = read_source(path)
            return ModelSummary(source.name, sum(header.file.stat().st_size for header in source.headers))
        _check_kind(path)
        refuse_special_files(path)
        weights = path / _WEIGHTS
        if not weights.is_file():
            raise ModelFormatError(f"{weights} is missing. {EXPORT_HINT}")
        config = read_json(path / "config.json")
        return ModelSummary(_model_id(name, path, config), weights.stat().st_size)


def open_model_directory(
    model: str | os.PathLike[str],
    cache_folder: Path | None = None,
    progress: Callable[[float], None] = lambda share: None,
    *,
    native: Callable[[], NativeLibrary | None] | None = None,
) -> ModelDirectory:
    """Find a model and check that all of its files exist and are complete.

    ``model`` is the name of an embedded model (``"nano"``, ``"nano-draft"``) or of a pulled one (see
    :mod:`agentrt.runtime.model.hub`), the path of a directory as ``optimum-cli export openvino`` writes it,
    or the path of a GGUF file. A GGUF file is converted when it is first opened; see
    :func:`agentrt.runtime.model.gguf.cache.convert_gguf`, also for ``cache_folder`` and ``progress``.
    Its weights stay as they are where the library that ``native`` returns multiplies them (see
    :func:`agentrt.runtime.model.native.library.native_library`); else OpenVINO reads the directory by itself.

    Raises:
        ModelNotFoundError: there is no such name or path, or ``model`` is neither a name nor a path.
        ModelFormatError: a file is missing, truncated or unreadable; the message names it.
    """
    name = _name(model)
    path = find_model(name)
    with explain_unreadable(path):
        if path.is_file() and _is_gguf(path):
            directory = _open_gguf(path, cache_folder, progress, native)
        else:
            directory = _open_exported(name, path)
    return dataclasses.replace(directory, opened_as=name)


def _open_gguf(
    file: Path,
    cache_folder: Path | None,
    progress: Callable[[float], None],
    native: Callable[[], NativeLibrary | None] | None,
) -> ModelDirectory:
    # Imported here, as they load packages that other models do not need, and converted ones neither.
    from .gguf.cache import convert_gguf, find_conversion

    name, path = file.stem, find_conversion(file, cache_folder, native)
    if path is None:
        from .chat_template import check_gguf_template
        from .gguf.file_format import read_source

        source = read_source(file)
        check_gguf_template(file, source.metadata)
        name, path = source.name, convert_gguf(source, cache_folder, progress, native and native())
    conversion = Conversion(file, str(read_json(path / "config.json").get("converted_from")))
    with conversion_errors(conversion):
        directory = _open_exported(name, path)
    return dataclasses.replace(directory, model_id=name, conversion=conversion)


def _open_exported(name: str, path: Path) -> ModelDirectory:
    _check_kind(path)
    refuse_special_files(path)
    for graph in _GRAPHS:
        check_graph(path / f"{graph}.xml")
    # The weights may have gigabytes: they are compared once the model is open, by a WeightsCheck.
    check_files(path, sorted(read_checksums(path).keys() - {_WEIGHTS}))
    config = read_json(path / "config.json")
    generation_file = path / "generation_config.json"
    generation = read_json(generation_file) if generation_file.exists() else {}
    stated = generation.get("eos_token_id", config.get("eos_token_id"))
    ids = stated if isinstance(stated, list) else [stated]
    length = config.get("max_position_embeddings")
    if not isinstance(length, int) or not 2 <= length <= _LONGEST_CONTEXT:
        raise ModelFormatError(
            f"{path / 'config.json'} states no usable max_position_embeddings, so the context length is "
            "unknown. Add it: the number of tokens the model was trained for."
        )
    return ModelDirectory(
        path=path,
        model_id=_model_id(name, path, config),
        context_length=length,
        native=config.get("native") is True,
        keeps_weights=config.get("keeps_weights") is True,
        end_token_ids=frozenset(id for id in ids if isinstance(id, int) and not isinstance(id, bool)),
    )


def path_of(name: str) -> Path:
    """Return the path that ``name`` has if it is not that of a pulled model, with ``~`` expanded."""
    return _EMBEDDED.get(name) or Path(os.path.expanduser(name))


def find_model(name: str) -> Path:
    """Return the GGUF file or the directory of the model of this name or path.

    Raises:
        ModelNotFoundError: there is none.
        ModelFormatError: its path cannot be looked at, such as in a folder without permission.
    """
    path = path_of(name)
    with explain_unreadable(path):
        if path.exists():
            return path
        pulled = find_pulled(name)
    if pulled is not None:
        return pulled
    to_pull = parse_name(name)
    if to_pull is not None:
        digest = " --sha256 DIGEST" if isinstance(to_pull, WebAddress) else ""
        raise ModelNotFoundError(
            f"there is no path {name!r}, and no such model was pulled. Check the path, or download it: "
            f"agentrt pull {shlex.quote(name)}{digest}"
        )
    raise ModelNotFoundError(
        f"there is no model {name!r}: it is neither an embedded model ({_KNOWN}) nor a path that exists. "
        "Check the spelling, give a GGUF file or the directory of an exported OpenVINO model, or download "
        "one that agentrt models --recommended lists."
    )


def _name(model: object) -> str:
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise ModelNotFoundError(
            f"{model!r} names no model. Give the name of an embedded model ({_KNOWN}), or the path of a GGUF "
            "file or of the directory of an exported OpenVINO model, as a string or a Path."
        )
    return name


def _model_id(name: str, path: Path, config: dict[str, Any]) -> str:
    """Return the name of the embedded model, of the GGUF file, or of the directory."""
    return str(config.get("converted_from", name if name in _EMBEDDED else path.resolve().name))


def _check_kind(path: Path) -> None:
    """Check that ``path`` is a directory, and not one of GGUF files."""
    if not path.is_dir():
        raise ModelFormatError(
            f"{path} is a file, but a model is a GGUF file or a directory that holds openvino_model.xml. "
            f"{EXPORT_HINT}"
        )
    if (path / "openvino_model.xml").exists():
        return
    held = sorted(file for file in path.glob("*.gguf") if file.is_file())
    if len(held) == 1:
        raise ModelFormatError(f"{path} is a directory that holds {held[0].name}. Name that file: {held[0]}")
    if held:
        more = ", …" if len(held) > _NAMED_FILES else ""
        names = ", ".join(file.name for file in held[:_NAMED_FILES]) + more
        raise ModelFormatError(
            f"{path} is a directory that holds {len(held)} GGUF files: {names}. Name the one to open."
        )


@contextmanager
def explain_unreadable(model: Path) -> Iterator[None]:
    """Explain an :class:`OSError` of the block as that of a file or folder of ``model``.

    Raises:
        ModelFormatError: something of the model cannot be read.
    """
    try:
        yield
    except AgentRTError:  # ModelNotFoundError is an OSError, too
        raise
    except OSError as error:
        raise ModelFormatError(
            f"{error.filename or model} cannot be read ({error.strerror or error}). Check the path, and the "
            "permissions of it and of the folders that it is in."
        ) from error


def _is_gguf(file: Path) -> bool:
    """Whether a file is a GGUF file by its name or its content."""
    with file.open("rb") as stream:
        return file.suffix.lower() == ".gguf" or stream.read(4) == b"GGUF"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The origin of a directory in the cache of converted models."""

    file: Path
    """The GGUF file that was opened."""
    cached_name: str
    """The name by which ``agentrt models`` lists the directory."""


@contextmanager
def conversion_errors(conversion: Conversion | None) -> Iterator[None]:
    """Let errors of a converted directory name the GGUF file, and how to have it converted again.

    Raises:
        ModelFormatError: the block raised one. Without ``conversion`` it is that of the block.
    """
    try:
        yield
    except ModelFormatError as error:
        if conversion is None:
            raise
        # The further sentences advise how to copy or export a directory, which this is not.
        reason = str(error).split(". ")[0].rstrip(".")
        raise ModelFormatError(
            f"the conversion of {conversion.file} cannot be opened: {reason}. Delete it, and open the "
            f"file again: agentrt models --remove {shlex.quote(conversion.cached_name)}"
        ) from error


def refuse_special_files(folder: Path) -> None:
    """Check that ``folder`` holds files and folders only; links are followed.

    OpenVINO's libraries read some of the files themselves, and would wait for ever for a writer of a FIFO.

    Raises:
        ModelFormatError: something else is in the folder.
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file() and not entry.is_dir() and os.path.exists(entry.path):
                raise ModelFormatError(
                    f"{entry.path} is no file, but a device, FIFO or socket. Replace it by the file of the "
                    "original model, or delete it."
                )
