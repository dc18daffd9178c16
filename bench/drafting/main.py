"""The bench of drafts: real models generate, and every way to draft saves what it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.estimates import exact
from ..common.machine import describe_machine
from ..common.report import BenchReport
from ..engines.llama_cpp import describe_builds
from .answering import DRAFTS, AnsweringRuntime
from .comparison import Measured, compare_sides, open_peers
from .extremes import (
    AGENTS_FILE,
    BATCH,
    agent_turns,
    batch_ratios,
    graph_switch_hidden_fraction,
    index_costs,
    share_of_identical_answers,
    undrafted_slowdowns,
)
from .npu import Ablation, record
from .prompt_sets import Prompt, PromptSet, load_sets
from .sides import Ours, Vanilla, baselines, from_logits

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
    exact_prompts: int
    """Prompts that are answered in float32, the shortest."""
    exact_tokens: int
    """Of such an answer."""
    repetitions: int
    """Of an answer in which nothing is drafted, and of batches."""
    undrafted_tokens: int
    batch_tokens: int
    conversations: int
    """Of an agent."""


FULL: Final = Size(2, 2, 64, 8, 24, 5, 64, 48, 4)
QUICK: Final = Size(1, 1, 48, 2, 16, 2, 48, 16, 1)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}
_MEMORY_BYTES: Final = 2**30
METHOD: Final = """\
The model generates every answer, greedily, up to its end token. All sides take turns at every prompt. \
Each set is an app of its own, whose history begins empty on every side. The prompt is in the prefix \
cache, and decoding is timed from the first token to the last, by each engine's own clock. Ratios of \
several sets compare the mean times of a token, and their intervals are over prompts. Of the sets whose \
answers repeat their contexts (summary, rag, mtrag, ui) those of speedup_vs_vanilla_public_sets are \
public, those of …_held_back_sets (mtrag-un, ui of other apps) were never used while drafting was \
developed, and those of …_own_sets (reply, edit) are the bench's own texts; speed_vs_suffix_rule and \
ratio_vs_openvino_prompt_lookup are over the public and the held-back ones. The latter compares with the \
faster of OpenVINO GenAI at its default activation groups and at ours. qa is held back as well. Baselines \
draft with their own fixed width, and the engine verifies all of it, as a list. In calls a tool must be \
called, held to a grammar; predicted_call_* is of the same prompts where the client submits the calls of \
plain decoding as predicted ones when the answer begins, mispredicted_call_* where it submits the same \
with other values. recurring_request_speedup is the speed on all prompts asked once more, when the first \
answers are the app's history, over that on the first time. undrafted_slowdown_pct is the median over \
answers sampled at temperature 2, in which nothing is drafted: what the drafters' own work costs; what \
rejected drafts cost is in slowest_set_vs_vanilla. tokens_identical is the share of our greedy answers in \
float32 that have the tokens of decoding without drafts, tokens_identical_at_default_precision that of all \
answers of the sets. agent_turn_end_to_end_ratio is the time of all turns of recorded conversations \
(API-Bank) without drafts over that with drafts, prefill included. graph_switch_hidden_fraction is \
computed in virtual time, for a prompt of 1,024 tokens. calibration_speedup and reuse_speedup are the \
speeds of ours with one more source of drafts over ours, calibration_prefill_ratio the time of a prompt \
with the logits of all its tokens over that without. npu_* are of the passes that this model takes for the \
context-heavy sets where all that is drafted is verified, up to 32 tokens a pass, timed in virtual time on \
an Intel Core Ultra 5 125H with Llama-3.2-3B from its published figures, some assumed. draft_ms_p99_at_32k \
is CPU time of appending a token and drafting the next ones behind 32,768 random tokens, with a full \
history, and memory_overhead_mb what both indexes take."""


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    model: str = "nano",
    drafts: Sequence[str] = (),
) -> BenchReport:
    """Measure ``model``; the first of ``drafts`` is a draft model of the same vocabulary for OpenVINO GenAI.

    The folder ``workloads`` has Spec-Bench, MTRAG, MTRAG-UN, AutoDroid, BFCL and API-Bank; without it only
    the bench's own texts are answered.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
        WorkloadFormatError: a workload cannot be read.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    machine, size = describe_machine(), SIZES[quick]
    models = open_given_models([model, *drafts[:1]], progress)
    sets = load_sets(workloads, size.context_heavy, size.others, progress)
    config = RuntimeConfig(memory_bytes=_MEMORY_BYTES, **DRAFTS)
    with LocalRuntime.open(models[model].opened, config) as opened:
        runtime = AnsweringRuntime(opened)
        sets = _fitting(sets, runtime, size, progress)
        measured = _measure(runtime, models, model, drafts, sets, size, progress)
        if workloads is not None and (workloads / AGENTS_FILE).is_file():
            measured.agent_turns = agent_turns(
                runtime, workloads, size.conversations, size.max_tokens, progress
            )
        ablation = Ablation(record(runtime, sets, size.max_tokens, progress))
        prompts = [prompt for each in sets for prompt in each.prompts]
        shortest = sorted(prompts, key=lambda prompt: len(runtime.prompt_tokens(prompt)))
    measured.identical = share_of_identical_answers(
        models[model].opened,
        shortest[: size.exact_prompts],
        Ours(),
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
        figures={
            **measured.figures(),
            **ablation.figures(),
            **costs,
            "graph_switch_hidden_fraction": exact(hidden),
        },
        tables=(*measured.tables(), ablation.table()),
        method=f"{METHOD} {describe_builds()}" if model.endswith(".gguf") else METHOD,
    )


def _fitting(
    sets: Sequence[PromptSet], runtime: AnsweringRuntime, size: Size, progress: Progress
) -> list[PromptSet]:
    """Leave out the prompts that do not fit the model, and the sets of which none does."""
    from agentrt.errors import PromptTooLongError

    def fits(prompt: Prompt) -> bool:
        try:
            tokens = len(runtime.prompt_tokens(prompt))
        except PromptTooLongError:
            return False
        return tokens + size.max_tokens <= runtime.runtime.context_length

    found = []
    for each in sets:
        prompts = tuple(filter(fits, each.prompts))
        if prompts:
            found.append(replace(each, prompts=prompts))
        if len(prompts) < len(each.prompts):
            progress(f"{each.name}: {len(each.prompts) - len(prompts)} prompts are longer than the context")
    return found


def _measure(
    runtime: AnsweringRuntime,
    models: dict[str, BenchModel],
    model: str,
    drafts: Sequence[str],
    sets: Sequence[PromptSet],
    size: Size,
    progress: Progress,
) -> Measured:
    sides: list[Vanilla] = [Vanilla(), *baselines(), Ours(), *from_logits()]
    draft = str(models[drafts[0]].path) if drafts else None
    gguf = model if model.endswith(".gguf") else None
    with open_peers(str(models[model].path), draft, gguf) as peers:
        results = compare_sides(runtime, sets, sides, peers, size.max_tokens, progress)
    heavy = [prompt for each in sets if each.context_heavy for prompt in each.prompts]
    return Measured(
        results,
        undrafted_slowdowns=undrafted_slowdowns(runtime, size.repetitions, size.undrafted_tokens, progress),
        batch_ratios=batch_ratios(
            runtime, list(islice(cycle(heavy), BATCH)), size.repetitions, size.batch_tokens, progress
        ),
    )
