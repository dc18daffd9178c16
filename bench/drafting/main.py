"""The bench of drafts: real models generate, and every way to draft saves what it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import describe_machine
from ..common.report import BenchReport
from .answering import DRAFTS, AnsweringRuntime
from .comparison import Measured, compare_sides, open_peers
from .extremes import (
    AGENTS_FILE,
    BATCH,
    agent_turn_ratio,
    batch_ratios,
    no_match_slowdowns,
    share_of_identical_answers,
)
from .graph_switch import MACHINE, PROMPT_TOKENS, graph_switch_hidden_fraction
from .index_costs import index_costs
from .prompt_sets import LoadedSets, Prompt, PromptSet, load_sets
from .sides import NEEDED, Ours, OursAtWidth, Side, Vanilla, baselines

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    context_heavy: int
    """Prompts of each set whose answers repeat their contexts."""
    others: int
    """Prompts of each other set."""
    max_tokens: int
    """Of an answer."""
    exact_sets: int
    """Sets of which one prompt is answered in float32, those with the shortest prompts."""
    exact_tokens: int
    """Of such an answer."""
    repetitions: int
    """Of a text in which nothing matches, and of batches."""
    no_match_tokens: int
    batch_tokens: int
    conversations: int
    """Of an agent."""
    all_sides: bool
    """Whether all sides are measured, or those only that a figure needs."""


FULL: Final = Size(3, 2, 96, 10, 32, 9, 192, 64, 6, all_sides=True)
QUICK: Final = Size(2, 1, 96, 3, 16, 5, 64, 24, 1, all_sides=False)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}
WIDTH: Final = 8
"""Draft tokens of a forward pass where acceptance is compared."""
_MEMORY_BYTES: Final = 2**30
_NO_LOGITS: Final = "calibration_gain and reuse_gain (the runtime drafts nothing from logits: decision 0035)"


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    model: str = "nano",
    drafts: Sequence[str] = (),
) -> BenchReport:
    """Measure ``model``; the first of ``drafts`` is a draft model of the same vocabulary for OpenVINO GenAI.

    The folder ``workloads`` has Spec-Bench, MTRAG, AutoDroid, BFCL and API-Bank; without it only the bench's
    own texts are answered.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
        WorkloadFormatError: a workload cannot be read.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    machine, size = describe_machine(), SIZES[quick]
    models = open_given_models([model, *drafts[:1]], progress)
    loaded = load_sets(workloads, size.context_heavy, size.others)
    config = RuntimeConfig(memory_bytes=_MEMORY_BYTES, **DRAFTS)
    with LocalRuntime.open(models[model].path, config) as opened:
        runtime = AnsweringRuntime(opened)
        loaded = _fitting(loaded, runtime, size)
        measured = _measure(runtime, models, model, drafts, loaded, size, progress)
        if workloads is not None and (workloads / AGENTS_FILE).is_file():
            measured.agent_turn_ratio = agent_turn_ratio(
                runtime, workloads, size.conversations, size.max_tokens, progress
            )
        shortest = sorted(loaded.sets, key=lambda each: len(runtime.prompt_tokens(each.prompts[0])))
    measured.identical = share_of_identical_answers(
        str(models[model].path),
        shortest[: size.exact_sets],
        [*baselines(), Ours()],
        size.exact_tokens,
        _MEMORY_BYTES,
        progress,
    )
    progress("graphs that change during prefill, simulated")
    hidden = graph_switch_hidden_fraction()
    progress("retrieval from a prompt of 32,768 tokens")
    costs = index_costs()
    return BenchReport(
        bench="drafting",
        machine=machine,
        figures={**measured.figures(), **costs, "graph_switch_hidden_fraction": hidden},
        tables=measured.tables(),
        method=_method(size, loaded, measured),
    )


def _fitting(loaded: LoadedSets, runtime: AnsweringRuntime, size: Size) -> LoadedSets:
    """Leave out the prompts that do not fit the model, and the sets of which none does."""
    from agentrt.errors import PromptTooLongError

    def fits(prompt: Prompt) -> bool:
        try:
            tokens = len(runtime.prompt_tokens(prompt))
        except PromptTooLongError:
            return False
        return tokens + size.max_tokens <= runtime.runtime.context_length

    sets, left_out = list[PromptSet](), list(loaded.left_out)
    for each in loaded.sets:
        prompts = tuple(prompt for prompt in each.prompts if fits(prompt))
        if prompts:
            sets.append(replace(each, prompts=prompts))
        if len(prompts) < len(each.prompts):
            dropped = len(each.prompts) - len(prompts)
            left_out.append(f"{dropped} prompts of {each.name} (longer than the context)")
    return LoadedSets(tuple(sets), tuple(left_out))


def _measure(
    runtime: AnsweringRuntime,
    models: dict[str, BenchModel],
    model: str,
    drafts: Sequence[str],
    loaded: LoadedSets,
    size: Size,
    progress: Progress,
) -> Measured:
    at_width = OursAtWidth(WIDTH, runtime.vocabulary_size)
    sides: list[Side] = [Vanilla(), *baselines(), Ours(), at_width]
    if not size.all_sides:
        sides = [side for side in sides if side.name in (*NEEDED, at_width.name)]
    draft = str(models[drafts[0]].path) if drafts else None
    gguf = model if size.all_sides and model.endswith(".gguf") else None
    with open_peers(str(models[model].path), draft, gguf) as peers:
        results = compare_sides(runtime, loaded.sets, sides, peers, size.max_tokens, progress)
    heavy = [prompt for each in loaded.sets if each.context_heavy for prompt in each.prompts]
    return Measured(
        results,
        at_width.name,
        size.max_tokens,
        no_match_slowdowns=no_match_slowdowns(runtime, size.repetitions, size.no_match_tokens, progress),
        batch_ratios=batch_ratios(
            runtime, list(islice(cycle(heavy), BATCH)), size.repetitions, size.batch_tokens, progress
        ),
    )


def _method(size: Size, loaded: LoadedSets, measured: Measured) -> str:
    heavy = ", ".join(each.name for each in measured.results if each.context_heavy)
    others = ", ".join(each.name for each in measured.results if not each.context_heavy)
    left_out = "; ".join((*loaded.left_out, _NO_LOGITS))
    return (
        f"The model generates every answer, greedily, up to its end token or {size.max_tokens} tokens. All "
        f"sides take turns at every prompt: {size.context_heavy} prompts of each context-heavy set ({heavy}) "
        f"and {size.others} of each other one ({others or 'none'}). Each set is an app of its own, whose "
        "history begins empty on every side. The prompt is in the prefix cache, and decoding is timed from "
        "the first token to the last, by each engine's own clock. Ratios of several sets compare the mean "
        "times of a token. Baselines draft with their own fixed width, and the engine verifies all of "
        "it, as a list. In calls a tool must be called, held to a grammar. accept_len_vs_sam_equal_width "
        f"compares tokens a forward pass of our drafts, the first {WIDTH} tokens of each verified while the "
        "model generates, with SAM's at as many verified tokens a pass, by replay of the same answers (SAM's "
        f"drafts depend on tokens only). no_match_slowdown_pct is the median over {size.repetitions} answers "
        f"of {size.no_match_tokens} tokens sampled at temperature 2, in which nothing repeats; "
        f"batch8_drafting_ratio compares the tokens a second of {BATCH} prompts at once, the median of "
        f"{size.repetitions}. tokens_identical is the share of answers in float32, of {size.exact_tokens} "
        f"tokens, of every side to one prompt of each of {size.exact_sets} sets, that have vanilla's tokens. "
        "agent_turn_end_to_end_ratio is the time of "
        f"all turns of {size.conversations} recorded conversations (API-Bank) without drafts over that with "
        "drafts, prefill included, with the prefix cache on both sides. graph_switch_hidden_fraction is "
        f"computed in virtual time, on {MACHINE} with a prompt of {PROMPT_TOKENS} tokens. "
        "draft_ms_p99_at_32k is CPU time of appending a token and drafting the next ones behind a prompt of "
        "32,768 tokens, with a full history, and memory_overhead_mb what both indexes take; their text is "
        f"drawn at random. Left out: {left_out}."
    )
