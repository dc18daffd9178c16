"""What importing each layer really loads, counted in a fresh interpreter."""

from __future__ import annotations

import json

import pytest

from tests.house.project import ROOT, python

# Packages that no layer may load unless it is allowed to below.
HEAVY = {
    "fastapi",
    "httpx",
    "httpx2",
    "langchain_core",
    "langgraph",
    "llguidance",
    "mcp",
    "numpy",
    "openai",
    "openvino",
    "openvino_genai",
    "openvino_tokenizers",
    "prometheus_client",
    "pydantic_ai",
    "redis",
    "rich",
    "torch",
    "typer",
    "uvicorn",
}

# Module -> the heavy packages it may load, and the most modules of agentrt.runtime that come with it.
LAYERS: dict[str, tuple[set[str], int]] = {
    "agentrt": (set(), 0),
    "agentrt.calls": (set(), 0),
    "agentrt.testing": (set(), 0),
    "agentrt.speculators": (set(), 0),
    "agentrt.runtime": (set(), 1),
    "agentrt.runtime.config": (set(), 4),
    "agentrt.runtime.kv.block_pool": (set(), 4),
    "agentrt.runtime.drafting.drafter": (set(), 5),
    "agentrt.runtime.toolcache.outputs": (set(), 5),
    "agentrt.runtime.heg.graph": (set(), 6),
    "agentrt.runtime.scheduler.scheduler": (set(), 33),
    "agentrt.bench.simulation.simulation": (set(), 42),
    # httpx loads rich where it is installed.
    "agentrt.runtime.serving.gateway": ({"fastapi", "httpx", "rich", "uvicorn"}, 45),
}

SCRIPT = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(name for name, module in sys.modules.items() if module is not None)))
"""


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_loads_what_it_may_and_no_more(layer: str) -> None:
    loaded = json.loads(python("-c", SCRIPT, layer, cwd=ROOT).stdout)
    may_load, most = LAYERS[layer]

    assert {name.partition(".")[0] for name in loaded} & HEAVY <= may_load
    assert len([name for name in loaded if (name + ".").startswith("agentrt.runtime.")]) <= most
