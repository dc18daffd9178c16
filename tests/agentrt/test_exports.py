"""The public names: exactly these, documentation and examples use no others, and importing them is cheap."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import agentrt
from agentrt import errors, reports
from tests.house.project import ROOT

ERRORS = {
    name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
}

# A module is public if it is listed here; every other one is private, whatever its file is called.
EXPORTS = {
    "agentrt": {
        *("DraftRequest", "Priority", "SpeculationConfig", "SpeculationReport", "SpeculationSession"),
        *("ToolCall", "current_priority", "priority", "run_scope", "speculable"),
    },
    "agentrt.adapters.langchain": {
        "BackgroundModel",
        "BackgroundRun",
        "ChatAgentRT",
        "RunRecorder",
        "SpeculationMiddleware",
        "allow_speculation",
        "init_chat_model",
        "report_of",
        "speculable_mcp_tools",
        "speculate",
    },
    "agentrt.adapters.mcp": {"McpTool", "TasksExtension", "speculable_tools"},
    "agentrt.adapters.anthropic": {"arun_tool", "prioritized", "report_of", "run_tool", "speculate"},
    "agentrt.adapters.openai": {"arun_tool", "prioritized", "report_of", "run_tool", "speculate"},
    "agentrt.adapters.openai_agents": {"report_of", "speculable_server", "speculate"},
    "agentrt.adapters.pydantic_ai": {"SpeculateTools", "allow_speculation"},
    "agentrt.adapting": {
        *("Guards", "Invocation", "ModelRequest", "Run", "SpeculableKeywords", "SpeculableOptions"),
        *("SpeculableTool", "Toolbox", "Turn", "Turns", "answered_ids", "claiming_function"),
        *(
            "current_scope",
            "current_speculative_run",
            "expected_tool_seconds",
            "is_hidden_run",
            "offered_tools",
            "plain_function",
            "register_context_source",
        ),
        *("register_scope_source", "register_tool_type", "request_key", "reserve_turn", "running"),
        *("speculable_tool", "start_in_thread", "within_scope", "write_log"),
    },
    "agentrt.argument_checks": {"check_collection", "check_field", "check_setting"},
    "agentrt.calls": {
        *("MAX_CALL_CHARACTERS", "MAX_KEY_CHARACTERS", "CallArgumentsDelta", "CallFinished", "CallScanner"),
        *("CallShape", "CallStarted", "JsonCallScanner", "MessageParser", "ParserEvent", "TextDelta"),
        *("ToolCall", "ToolCallFormat", "ToolCallParser", "ToolDefinitions", "canonical_key"),
        "detect_tool_call_format",
        *("find_tool_call_format", "parse_arguments", "parse_tool_calls", "takes_tools"),
        "tool_call_formats",
        "tool_call_parser",
    },
    "agentrt.config": {"Budget", "SpeculationConfig", "TurnAhead"},
    "agentrt.dialects": {
        *("AgentRTServer", "Dialect", "Dynamo", "Evidence", "LiteLLM", "LlmD", "PriorityFields"),
        *("SGLang", "ServiceTier", "VLLM", "CHAT_COMPLETIONS", "MODEL_PATHS", "RESPONSES"),
        *("EndpointDialect", "PrioritizedAsyncClient", "PrioritizedClient"),
    },
    "agentrt.drafts": {
        *("AnswerStream", "DraftCharge", "DraftCost", "DraftRequest", "Learner", "Speculator"),
        *("estimated_tokens", "merge", "reads_calls", "run_in_thread"),
    },
    "agentrt.errors": ERRORS,
    "agentrt.perfmodel": {"EngineTimes", "EngineTurn", "TurnTimes", "saved_seconds"},
    "agentrt.reports": {
        *("AheadKept", "AheadReport", "AheadStarted", "AheadWasted", "CallClaimed", "CallMissed"),
        *("CallReport", "DiscardFailed", "DraftArrived", "DraftJudged", "DraftRefused", "PredictorCharged"),
        *("PredictorFailed", "PredictorReport", "PredictorSkipped", "PredictorStarted", "RecordedAnswer"),
        *("RecordedCall", "Recording", "SpeculationEvent", "SpeculationObserver", "SpeculationReport"),
        *("SpeculationStarted", "SpeculationWasted", "SubmissionRefused", "ToolReport", "TurnAnswered"),
        *("DraftUnclaimed", "PredictorStopped", "SpeculationStopped", "TurnReport", "TurnStarted"),
        *("RunReport", "Timeline", "WorkAbandoned", "PredictorEnded"),
    },
    "agentrt.runtime": {
        *("CallAnswered", "EngineStatistics", "FinishReason", "Finished", "Generation", "GenerationEvent"),
        *("GenerationOptions", "GenerationStream", "LocalRuntime", "LogprobsDelta", "RuntimeConfig"),
        *(
            "EmbeddingModel",
            "Embeddings",
            "EngineGroup",
            "ModelPool",
            "OpeningStep",
            "PoolConfig",
            "PooledModel",
            "Pooling",
            "PromptTruncated",
            "RawPrompt",
            "RuntimeStatistics",
            "SavedContexts",
            "SamplingParams",
        ),
        *("Context", "ContextKind", "ContextService", "ContextStream", "ContextTable"),
        *("BackgroundConditions", "BackgroundConfig", "BackgroundJob", "BackgroundService", "JobStatus"),
        *("Timing", "TokenLogprobs", "Usage", "find_model"),
    },
    "agentrt.runtime.serving.gateway": {"GatewayConfig", "bind", "create_gateway", "serve"},
    "agentrt.runtime.nano": {"DRAFT_DIRECTORY", "MODEL_DIRECTORY"},
    "agentrt.runtime.serving.server": {"ServerConfig", "bind", "create_app", "serve"},
    "agentrt.settings": {"Settings", "invalid_settings"},
    "agentrt.speculators": {
        *("AnswerStream", "CodeSpeculator", "DraftCost", "EndpointSpeculator", "EnsembleSpeculator"),
        *("Learner", "LocalSpeculator", "PatternSpeculator", "Speculator", "StreamSpeculator"),
    },
    "agentrt.testing": {
        *("RecordedSpeculator", "Replayed", "ScriptedSpeculator", "free_prediction", "mock_endpoint"),
        *("replay", "run_in_virtual_time"),
    },
    "agentrt.terminal_text": {"printable"},
    "agentrt.toolcache": {
        *("FinishedCall", "PredictedCall", "ResultSource", "TakePrediction", "TakeResult"),
        *("current_result_source", "offering_results"),
        "result_text",
    },
}


@pytest.mark.parametrize("module", EXPORTS)
def test_the_exported_names(module: str) -> None:
    imported = importlib.import_module(module)
    if imported is not errors:  # of which all classes are public
        assert set(imported.__all__) == EXPORTS[module]
    assert all(hasattr(imported, name) for name in EXPORTS[module])


def test_every_event_is_exported() -> None:
    events = {event.__name__ for event in reports.SpeculationEvent.__subclasses__()}
    assert len(events) > 20
    assert events <= EXPORTS["agentrt.reports"]


def test_the_docstring_names_the_public_modules() -> None:
    (below, *_) = (agentrt.__doc__ or "").split("Everything else")
    named = set(re.findall(r"``(?:agentrt)?\.(\w+)``", below))
    assert named == {name.rpartition(".")[2] for name in EXPORTS} - {"agentrt"}


def python_for_users() -> Iterator[tuple[str, str]]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"^ *```python\n(.*?)^ *```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        yield from ((path.name, block) for block in blocks)
    # The page is the program's own: it serves the runtime's private live page beside the demo.
    for path in sorted(set((ROOT / "examples").rglob("*.py")) - {ROOT / "examples" / "demo" / "page.py"}):
        # Scripts import the other files of the examples by their full names, which run from any folder.
        code = path.read_text(encoding="utf-8")
        yield path.name, re.sub(r"^( *)from agentrt\.examples\.", r"\1from .", code, flags=re.MULTILINE)


def private_imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.cleandoc(code))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name for name in names if name.split(".")[0] == "agentrt" and name not in EXPORTS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "agentrt":
            public = EXPORTS.get(node.module, set())
            modules = {name.rpartition(".")[2] for name in EXPORTS if name.startswith(node.module + ".")}
            names = [alias.name for alias in node.names]
            yield from (f"{node.module}.{name}" for name in names if name not in public | modules)


def test_documentation_and_examples_import_public_names_only() -> None:
    assert [f"{file}: {name}" for file, code in python_for_users() for name in private_imports(code)] == []


@pytest.mark.parametrize(
    "code", ["import agentrt.turns.turn", "from agentrt.calls import key", "from agentrt import nothing"]
)
def test_a_private_import_is_found(code: str) -> None:
    assert list(private_imports(code))


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("agentrt", "langchain_core openai openvino openvino_genai httpx numpy torch"),
        ("agentrt.speculators", "langchain_core openai openvino openvino_genai"),
        ("agentrt.adapters.langchain", "openai openvino openvino_genai"),
        ("agentrt.adapters.anthropic", "langchain_core openai openvino openvino_genai"),
        ("agentrt.adapters.openai", "langchain_core openvino openvino_genai"),
        ("agentrt.adapters.openai_agents", "langchain_core openvino openvino_genai"),
        ("agentrt.adapters.pydantic_ai", "langchain_core openai openvino openvino_genai"),
    ],
)
def test_importing_one_part_does_not_import_another_parts_dependencies(module: str, absent: str) -> None:
    program = f"import sys, {module}; print([name for name in '{absent}'.split() if sys.modules.get(name)])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
