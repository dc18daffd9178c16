"""The models that benches measure: those that the user names, and those of the bench itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .prompts import Passages, Prompts, RandomWords


@dataclass(frozen=True, slots=True)
class BenchModel:
    """An OpenVINO model directory; all sides of a comparison open the same one."""

    title: str
    """The model's name in tables."""
    path: Path
    context_length: int
    """The most tokens of prompt and answer together."""
    prompts: Callable[[int], Prompts]
    """Returns the prompts of a seed."""
    gguf: Path | None = None
    """The GGUF file that the directory was converted from, if it was."""

    @classmethod
    def of(cls, title: str, name: str | Path, prompts: Callable[[int], Prompts]) -> BenchModel:
        """Return the model of this name, which is converted first if it is a GGUF file.

        Raises:
            ModelNotFoundError, ModelFormatError: the model cannot be opened.
        """
        from agentrt.runtime.model.directory import find_model, open_model_directory

        found = find_model(str(name))
        directory = open_model_directory(name)
        gguf = found if found.is_file() else None
        return cls(title, directory.path, directory.context_length, prompts, gguf)


def title_of(name: str) -> str:
    """Return the name in tables of a model that the user names so: a path without its folders."""
    return Path(name).name


def open_given_models(names: Iterable[str], progress: Callable[[str], None]) -> dict[str, BenchModel]:
    """Return the models that the user names, by name.

    A name is a GGUF file, an OpenVINO directory, an embedded model, or one that was pulled.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    from agentrt.runtime.model.directory import find_model

    given: dict[str, BenchModel] = {}
    # A file may be converted first, which takes seconds: all names are looked up before that.
    for name in sorted(set(names), key=lambda name: find_model(name).is_file()):
        progress(f"opening {name}")
        embedded = name in ("nano", "nano-draft")  # they know few words
        given[name] = BenchModel.of(title_of(name), name, RandomWords if embedded else Passages)
    return given
