"""``python -m training.nano``: train and evaluate the embedded models.

``train`` needs the ``train`` extra (PyTorch); ``evaluate`` needs only the runtime.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentrt.errors import MissingExtraError
from agentrt.runtime.nano import DRAFT_DIRECTORY, MODEL_DIRECTORY

app = typer.Typer(help="The embedded default model: its recipe and its evaluation.", no_args_is_help=True)


class Size(StrEnum):
    """The two models."""

    MAIN = "main"
    DRAFT = "draft"


_DIRECTORIES = {Size.MAIN: MODEL_DIRECTORY, Size.DRAFT: DRAFT_DIRECTORY}
Checkpoints = Annotated[Path, typer.Option(help="where the checkpoint goes, or is")]


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@app.command()
def train(
    size: Size,
    directory: Checkpoints = Path("build/nano"),
    device: Annotated[str, typer.Option(help="cpu, or cuda for PyTorch's GPU")] = "cpu",
    workers: Annotated[
        int, typer.Option(help="processes that write dialogues beside the training", min=0)
    ] = 0,
) -> None:
    """Train one model from scratch."""
    try:
        from .recipe import recipes, training
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error

    directory.mkdir(parents=True, exist_ok=True)
    recipe = {Size.MAIN: recipes.MAIN, Size.DRAFT: recipes.DRAFT}[size]
    tokenizer = _DIRECTORIES[size] / "tokenizer.json"
    training.train(recipe, tokenizer, directory / f"{size}.pt", _progress, device, workers)


@app.command()
def refill(size: Size, directory: Checkpoints = Path("build/nano")) -> None:
    """Put a checkpoint of the same shape into the OpenVINO model directory that the package ships."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error
    from .recipe import recipes
    from .recipe.refill import refill as put

    recipe = {Size.MAIN: recipes.MAIN, Size.DRAFT: recipes.DRAFT}[size]
    weights = {name: tensor.numpy() for name, tensor in torch.load(directory / f"{size}.pt").items()}
    put(_DIRECTORIES[size], weights, recipe.network)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Option(help="a model directory")] = MODEL_DIRECTORY,
    draft: Annotated[Path, typer.Option(help="the draft's model directory")] = DRAFT_DIRECTORY,
    cases: Annotated[int, typer.Option(help="cases of each kind", min=1)] = 200,
    failures: Annotated[
        Path | None, typer.Option(help="write what failed here, one JSON object a line")
    ] = None,
) -> None:
    """Measure a model on held-out entities and wordings; prints the table of the model card."""
    from .evaluation import draft_hit_rates
    from .evaluation import evaluate as measure

    result = measure(model, cases=cases, report=_progress)
    if failures is not None:
        lines = (json.dumps(vars(failure), ensure_ascii=False) for failure in result.failures)
        failures.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    print(f"| measure ({cases} cases of each kind) | % |\n|---|---|")
    for name, share in result.measures.items():
        print(f"| {name} | {share:.1f} |")
    for samples, share in draft_hit_rates(model, draft, cases=cases, report=_progress).items():
        drawn = f"{samples} sample{'s' if samples > 1 else ''}"
        print(f"| draft predicts the main model's first call, {drawn} | {share:.1f} |")


if __name__ == "__main__":
    app()
