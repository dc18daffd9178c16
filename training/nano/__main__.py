"""``python -m training.nano``: train, export and evaluate the embedded models.

``train`` and ``export`` need the ``train`` extra (PyTorch); ``evaluate`` needs only the runtime.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentrt.errors import MissingExtraError
from agentrt.runtime.nano import DRAFT_DIRECTORY, MODEL_DIRECTORY

app = typer.Typer(help="The embedded default model: its recipe and its evaluation.", no_args_is_help=True)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@app.command()
def tokenizer(
    directory: Annotated[Path, typer.Option(help="where the tokenizer goes")] = Path("build/nano"),
) -> None:
    """Train another tokenizer than that of the package, which training takes otherwise."""
    try:
        from .recipe.tokenizer import train_tokenizer
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error

    directory.mkdir(parents=True, exist_ok=True)
    train_tokenizer().save(str(directory / "tokenizer.json"))


@app.command()
def train(
    size: Annotated[str, typer.Argument(help="main or draft")],
    directory: Annotated[Path, typer.Option(help="where tokenizer and checkpoint go")] = Path("build/nano"),
    device: Annotated[str, typer.Option(help="cpu, or cuda for PyTorch's GPU")] = "cpu",
    workers: Annotated[int, typer.Option(help="processes that write dialogues for a GPU", min=1)] = 8,
    times: Annotated[float, typer.Option(help="on a GPU: steps, as multiples of the recipe's")] = 1.5,
    uses: Annotated[int, typer.Option(help="on a GPU: how often each batch is trained on", min=1)] = 2,
) -> None:
    """Train one model from scratch: on a CPU in as many processes as its recipe says, or on a GPU."""
    try:
        from .recipe import recipes, training
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer_path = directory / "tokenizer.json"
    if not tokenizer_path.exists():
        shutil.copy(MODEL_DIRECTORY / "tokenizer.json", tokenizer_path)
    recipe = {"main": recipes.MAIN, "draft": recipes.DRAFT}[size]
    if device != "cpu":
        recipe = recipes.on_gpu(recipe, times, uses)
    machine = training.Machine(device, workers)
    training.train(recipe, tokenizer_path, directory / f"{size}.pt", _progress, machine)


@app.command()
def export(
    size: Annotated[str, typer.Argument(help="main or draft")],
    directory: Annotated[Path, typer.Option(help="where tokenizer and checkpoint are")] = Path("build/nano"),
) -> None:
    """Turn a checkpoint into the OpenVINO model directory that the package ships."""
    try:
        import torch

        from .recipe import export as exporting
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error
    from .recipe.sizes import SIZES
    from .recipe.tokenizer import load_tokenizer

    weights = torch.load(directory / f"{size}.pt")
    target = {"main": MODEL_DIRECTORY, "draft": DRAFT_DIRECTORY}[size]
    exporting.export(weights, SIZES[size], load_tokenizer(directory / "tokenizer.json"), target)


@app.command()
def refill(
    size: Annotated[str, typer.Argument(help="main or draft")],
    directory: Annotated[Path, typer.Option(help="where the checkpoint is")] = Path("build/nano"),
) -> None:
    """Put a checkpoint of the same shape into the OpenVINO model directory that the package ships."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(str(error.name), "train") from error
    from .recipe.refill import refill as put
    from .recipe.sizes import SIZES

    weights = {name: tensor.numpy() for name, tensor in torch.load(directory / f"{size}.pt").items()}
    put({"main": MODEL_DIRECTORY, "draft": DRAFT_DIRECTORY}[size], weights, SIZES[size])


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
