"""Assembles an open runtime from its parts: model, KV arena, contexts, scheduler, drafters, engine."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from agentrt.calls import ToolCallFormat
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import ConfigurationError, ModelFormatError

from ..config import RuntimeConfig, check_config
from ..contexts.opening import SCORED_LAYERS, KeptContexts, open_contexts
from ..contexts.table import ContextTable
from ..drafting.drafter_selector import AppDrafterSelector
from ..engine.engine import Engine
from ..engine.engine_group import EngineGroup
from ..engine.engine_request import EngineRequestBuilder
from ..heg.refinement import ProfileRefiner
from ..heg.store import ProfileStore
from ..kv.block_pool import BlockPool
from ..kv.saved_contexts import SavedContexts
from ..kv.store.store import ContextStore
from ..kv.swap.chunks import NO_SWAPPER
from ..model.directory import ModelDirectory, conversion_errors, open_model_directory
from ..model.native.library import NativeLibrary, is_to_be_compiled, native_library
from ..model.opening import OnOpeningStep, OpeningStep, ignore_step
from ..model.tokenizer import Tokenizer
from ..model.weights_check import WeightsCheck
from ..request.processor import InputProcessor
from ..request.prompt_encoder import PromptEncoder
from ..scheduler.scheduler import Scheduler
from ..toolcache.renderer import ToolTurnRenderer
from ..xpu.kv_arena import KVArena
from ..xpu.loading import load_model
from ..xpu.platforms import OpenVINOPlatform, find_platform
from ..xpu.warm_up import warm_up, warm_up_attention
from .texts import GrammarPreparation, TextsLoader

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """The parts of one open runtime."""

    close: Callable[[], None]
    """Stops the engine and frees what it runs on; does nothing in a forked child, where all is the parent's.
    Keeps only those parts alive that it closes."""
    model_id: str
    context_length: int
    """Maximum number of tokens of prompt and answer together."""
    platform: OpenVINOPlatform
    footprint_bytes: int
    """Bytes of the weights, and of the activations of the longest chunk."""
    vocabulary_size: int
    tokenizer: Tokenizer
    call_format: ToolCallFormat | None
    """Format in which the model is expected to write tool calls; None if it takes no tools."""
    arena: KVArena
    pool: BlockPool
    state_pool: BlockPool | None
    """State rows; None unless the model is a hybrid one."""
    kept: KeptContexts
    contexts_owner: Hashable
    """The owner of :class:`SavedContexts` of this runtime."""
    context_table: ContextTable
    renderer: ToolTurnRenderer
    input_processor: InputProcessor
    scheduler: Scheduler
    drafter_selector: AppDrafterSelector
    engine: Engine


def library_for(
    config: RuntimeConfig, on_step: OnOpeningStep = ignore_step
) -> Callable[[], NativeLibrary | None] | None:
    """Return what loads the library for weights that stay as they are; None if they do not stay so.

    What is returned raises ConfigurationError where there is no library and the configuration insists on it.
    """
    if config.weight_format == "int8":
        return None
    _, devices = find_platform(config.platform)
    on_cpu = all(device.name == "CPU" for device in devices.values())
    if config.weight_format == "auto" and not (on_cpu and config.dynamic_quantization_group_size is None):
        return None

    def load() -> NativeLibrary | None:
        if is_to_be_compiled():
            on_step(OpeningStep("compiling"))
        library = native_library()
        if library is None and config.weight_format == "file":
            raise ConfigurationError(
                "weight_format is 'file', but products with weights as they are cannot be compiled here. "
                "Install g++ (apt-get install g++), or leave weight_format at 'auto'."
            )
        return library

    return load


def assemble_runtime(
    model: str | os.PathLike[str],
    config: RuntimeConfig,
    on_step: OnOpeningStep,
    group: EngineGroup | None,
    contexts: SavedContexts | None,
    context_table: ContextTable | None,
    context_store: ContextStore | None,
) -> RuntimeParts:
    """Load ``model`` and start its engine; see :meth:`LocalRuntime.open`, whose errors it raises."""
    check_config(config)
    usual = RuntimeConfig()
    directory = open_model_directory(
        model,
        progress=lambda share: on_step(OpeningStep("converting", share)),
        native=library_for(config, on_step),
    )
    opened = ExitStack()
    try:
        loader = opened.enter_context(TextsLoader(directory, config))
        with conversion_errors(directory.conversion):
            loaded = load_model(
                directory,
                platform=config.platform,
                properties=config.device_properties(keeps_weights=directory.keeps_weights),
                max_chunk_tokens=config.prefill_chunk_tokens,
                quantum_s=config.quantum_s,
                kv_bytes=config.cache_bytes,
                profile_folder=config.profile_folder,
                npu_decoding=config.npu_decoding,
                scored_layers=0 if config.context_compression is None else SCORED_LAYERS,
                usual_settings=(config.device_properties(), config.prefill_chunk_tokens)
                == (usual.device_properties(), usual.prefill_chunk_tokens),
                on_step=on_step,
                on_read=loader.begin,
            )
        opened.callback(loaded.platform.close)
        arena = KVArena(loaded.layout, loaded.platform, config.memory_bytes)
        weights = None if directory.keeps_weights else directory.graph.with_suffix(".bin")
        warm_up(loaded.platform, loaded.graph, arena.blocks, weights)
        texts = loader.result()
        tokenizer = texts.tokenizer
        kept = open_contexts(config, directory, loaded, arena, tokenizer, context_store, on_step)
        opened.callback(kept.close)
        if kept.longest_context:
            longest = min(arena.capacity_tokens, directory.context_length) - arena.block_tokens
            stored = kept.longest_context * arena.block_tokens
            warm_up_attention(loaded.platform, loaded.graph, max(0, min(stored, longest)), weights)
        contexts_owner = (_files_of(directory), config, loaded.layout, loaded.platform.name)
        pool = BlockPool(arena.blocks)
        if contexts is not None and contexts.owner == contexts_owner and kept.store is None:
            pool = _restored_pool(contexts, arena, loaded.platform, kept)
        state_pool = BlockPool(arena.state_rows) if arena.state_rows else None
        table = ContextTable(config.contexts_per_app, kept.store) if context_table is None else context_table
        kept.forget_deleted(table)
        renderer = ToolTurnRenderer(tokenizer, texts.call_format)
        prompts = PromptEncoder(
            tokenizer=tokenizer,
            model_id=directory.model_id,
            context_length=directory.context_length,
            arena_tokens=arena.capacity_tokens,
            memory_bytes=config.memory_bytes,
            vocabulary_size=loaded.vocabulary_size,
        )
        input_processor = InputProcessor(prompts, texts.call_format, kept.salts, texts.structured_output)
        scheduler = Scheduler(
            pool,
            loaded.graph,
            config.scheduling(),
            max_batch_size=config.max_batch_size,
            quantised_keys=arena.quantised_keys,
            share_sampled=not arena.quantised_keys and not directory.keeps_weights,
            state_pool=state_pool,
            swapper=kept.swapper or NO_SWAPPER,
        )
        keeps_tokens = (
            directory.keeps_weights and config.inference_precision is None and not arena.quantised_keys
        )
        selector = AppDrafterSelector.open(
            tokenizer,
            # The state of a hybrid model behind a rejected token could not be taken back.
            verifies_drafts=state_pool is None,
            drafts=(keeps_tokens or scheduler.switcher.has_two_graphs)
            if config.drafts is None
            else config.drafts,
            from_logits=scheduler.switcher.has_two_graphs,
            history_folder=config.history_folder,
        )
        opened.callback(selector.close)
        engine = Engine(
            loaded.platform,
            scheduler,
            EngineRequestBuilder(loaded.vocabulary_size, arena.block_tokens, tokenizer.detokenizer),
            group,
            ProfileRefiner(loaded.profile, ProfileStore(config.profile_folder)),
            kept.swapper,
        )
        opened.callback(engine.close)
        check = WeightsCheck(directory, functools.partial(_stop_damaged, engine))
        opened.callback(check.stop)
        preparation = GrammarPreparation(texts.structured_output)
        return RuntimeParts(
            close=functools.partial(_close, preparation, check, engine, selector, kept),
            model_id=directory.model_id,
            context_length=directory.context_length,
            platform=loaded.platform,
            footprint_bytes=loaded.graph.footprint_bytes,
            vocabulary_size=loaded.vocabulary_size,
            tokenizer=tokenizer,
            call_format=texts.call_format,
            arena=arena,
            pool=pool,
            state_pool=state_pool,
            kept=kept,
            contexts_owner=contexts_owner,
            context_table=table,
            renderer=renderer,
            input_processor=input_processor,
            scheduler=scheduler,
            drafter_selector=selector,
            engine=engine,
        )
    except BaseException:  # Ctrl-C, too, leaves neither threads nor memory behind
        opened.close()
        raise


def _files_of(directory: ModelDirectory) -> tuple[object, ...]:
    """What changes when the model of a directory is replaced."""
    files = [(file, file.stat()) for file in (directory.graph, directory.graph.with_suffix(".bin"))]
    return tuple((file, status.st_size, status.st_mtime_ns) for file, status in files)


def _restored_pool(
    contexts: SavedContexts, arena: KVArena, platform: OpenVINOPlatform, kept: KeptContexts
) -> BlockPool:
    """Return a pool whose prefix cache has ``contexts``, as far as these can be read."""
    pool = BlockPool(arena.blocks)
    try:
        contexts.read_into(arena.rows(platform), pool.restore(contexts.block_hashes))
    except OSError as error:
        _log.warning("The contexts of the model cannot be read and are computed again: %s", error)
        return BlockPool(arena.blocks)
    kept.salts = contexts.salts
    return pool


def _stop_damaged(engine: Engine, error: ModelFormatError) -> None:
    """Answer no more requests: answers of damaged weights would look like answers."""
    _log.error("%s", error)
    engine.fail(error)


def _close(
    preparation: GrammarPreparation,
    check: WeightsCheck,
    engine: Engine,
    selector: AppDrafterSelector,
    kept: KeptContexts,
) -> None:
    if native_calls.forked:
        return  # the threads, files and locks are the parent's
    preparation.stop()
    check.stop()
    engine.close()
    selector.close()  # behind the engine, which ends all answers
    kept.close()
