"""Questions about a folder, answered with citations: retrieval-augmented generation in LangChain.

    python examples/rag_with_citations.py
    python examples/rag_with_citations.py --model model.gguf --folder ~/notes "How high is the rent?"
    python examples/rag_with_citations.py --embedding-model ~/models/bge-small-en-v1.5-ov

The agent searches the paragraphs of all texts and reads those that it found. Citations are made from the
results of its tools, so that the model cannot invent one. Nano repeats what it read, and knows questions of
the form below only; a real model answers others, too.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("cli", "langgraph", "runtime"):
    import typer
    from langchain.agents import create_agent
    from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool, tool

    from agentrt import SpeculationConfig, speculable
    from agentrt.adapters.langchain import report_of, speculate
    from agentrt.config import TurnAhead
    from agentrt.examples.assistant.paced import chat_model
    from agentrt.examples.gallery.script import Model, run_script
    from agentrt.runtime import EmbeddingModel
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

SAMPLE = {
    "leave.md#1": "Parental leave is 14 weeks.",
    "leave.md#2": "Sick leave needs a letter from the third day on.",
    "travel.md#1": "Train tickets are paid by the office.",
}


# 1. The paragraphs of a folder, each with its place: file.md#2 is the second one of file.md.


def paragraphs(folder: Path) -> dict[str, str]:
    """Return the paragraphs of all text and Markdown files below ``folder`` by their place."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".md", ".txt"})
    return {
        f"{path.relative_to(folder).as_posix()}#{number}": text[:800]
        for path in files
        for number, text in enumerate(re.split(r"\n\s*\n", path.read_text("utf-8", "replace").strip()), 1)
    }


# 2. Ranking: by the cosine of embeddings if there is an embedding model, else by the words in common.


async def rank(query: str, texts: dict[str, str], embedding: EmbeddingModel | None) -> list[str]:
    """Return the places of the three paragraphs that match ``query`` best."""
    if embedding is None:
        words = set(re.findall(r"\w+", query.lower()))
        scores = {at: float(len(words & set(re.findall(r"\w+", text.lower())))) for at, text in texts.items()}
    else:
        asked, *vectors = (await embedding.aembed([query, *texts.values()])).vectors
        scores = {at: sum(map(float.__mul__, asked, v)) for at, v in zip(texts, vectors, strict=True)}
    return [at for at in sorted(scores, key=lambda at: -scores[at])[:3] if scores[at] > 0]


# 3. Tools. Both only read, and no path of the model reaches the disk.


def tools_over(texts: dict[str, str], embedding: EmbeddingModel | None) -> list[BaseTool]:
    """Return the agent's tools over the paragraphs ``texts``."""

    @speculable
    @tool
    async def search_documents(query: str) -> str:
        """Search the documents."""
        return json.dumps([{"path": at} for at in await rank(query, texts, embedding)])

    @speculable
    @tool
    async def read_document(path: str) -> str:
        """Read a document."""
        return json.dumps({"path": path, "text": texts.get(path, "there is no such document")})

    return [search_documents, read_document]


# 4. Citations: what the agent has read.


def citations(messages: Sequence[AnyMessage]) -> list[str]:
    """Return a line for each paragraph that was read for an answer."""
    read = [json.loads(m.text) for m in messages if isinstance(m, ToolMessage) and m.name == "read_document"]
    return [f"  [{i}] {each['path']}: {each['text'][:70]}" for i, each in enumerate(read, 1)]


def main(
    questions: Annotated[list[str] | None, typer.Argument()] = None,
    folder: Annotated[Path | None, typer.Option(help="Texts; by default three sample paragraphs.")] = None,
    embedding_model: Annotated[str | None, typer.Option(help="An OpenVINO embedding model.")] = None,
    model: Model = "nano",
) -> None:
    """Answer QUESTIONS about the texts in a folder, with what was read for each answer."""
    texts = paragraphs(folder) if folder else SAMPLE
    embedding = EmbeddingModel.open(embedding_model) if embedding_model else None
    drafts = LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    faster = speculate(chat_model(model), drafts, config=SpeculationConfig(turn_ahead=TurnAhead()))
    agent = create_agent(faster, tools_over(texts, embedding))
    topics = ("parental leave", "train tickets")
    for question in questions or [f"What does the document about {topic} say?" for topic in topics]:
        state = asyncio.run(agent.ainvoke({"messages": [HumanMessage(question)]}))
        print(f"> {question}\n{state['messages'][-1].text}", *citations(state["messages"]), sep="\n")
    print(f"\n{report_of(faster)}")


if __name__ == "__main__":
    run_script(main)
