"""A digest of a mailbox, written in the background while the user gets answers at once.

    python examples/mail_digest.py
    python examples/mail_digest.py --model model.gguf --mailbox ~/Mail/inbox.mbox

Two agents share one model. The digest runs with the priority PROACTIVE: the runtime serves it only when no
request of the user is there, and interrupts it between two kernels, some milliseconds each. The user's agent
speculates; the digest does not, since nobody waits for it.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("cli", "langgraph", "runtime"):
    import typer
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    from agentrt import Priority, priority, speculable
    from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
    from agentrt.examples.assistant.mail import MailBox
    from agentrt.examples.assistant.paced import chat_model
    from agentrt.examples.assistant.sources import Sources
    from agentrt.examples.gallery.script import Model, run_script
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

Mails = dict[str, dict[str, str]]
SAMPLE = [
    ("Nadia", "Roof repair", "The roofers come on Monday at eight."),
    ("Emil", "Dinner on Saturday", "I booked a table for six at the Green Lantern."),
    ("Marta", "Choir concert", "Our concert moved to the old station hall."),
    ("Priya", "Project deadline", "The bridge drawings are due on Friday."),
]


# 1. The mails of a file, each under an id by which the model can name it.


def read_mailbox(path: Path) -> Mails:
    """Return sender, subject and text of each mail in a Maildir or an mbox file, by id."""
    with closing(MailBox(Sources([path]))) as box:
        return {
            mail.id: {"from": mail.sender, "subject": mail.subject, "body": mail.body[:400]}
            for mail in box.all()
        }


# 2. The digest: one short run of an agent for each mail.


async def write_digest(model: BaseChatModel, mails: Mails, digest: dict[str, str]) -> None:
    """Put the agent's answer about each mail into ``digest``, in the background."""

    @tool
    async def read_mail(id: str) -> str:
        """Read a mail by id."""
        return json.dumps(mails.get(id, {"error": "there is no such mail"}))

    agent = create_agent(model, [read_mail])
    with priority(Priority.PROACTIVE):
        for id in mails:
            state = await agent.ainvoke({"messages": [HumanMessage(f"Read mail {id}")]})
            digest[id] = state["messages"][-1].text


# 3. The user's agent, with one tool that takes as long as a web service.


@speculable
@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    await asyncio.sleep(0.2)
    return json.dumps({"temperature": 10 + len(city), "sky": "clear"})


async def converse(name: str, mails: Mails) -> None:
    """Answer a question alone and two beside the digest; print answers, waits and the digest."""
    model = speculate(chat_model(name), LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False))
    agent = create_agent(model, [get_weather])
    digest: dict[str, str] = {}
    background = None
    for city in ("Oslo", "Rome", "Lima"):
        began, done = time.monotonic(), len(digest)
        state = await agent.ainvoke({"messages": [HumanMessage(f"What is the weather in {city}?")]})
        print(state["messages"][-1].text)
        print(f"  after {time.monotonic() - began:.2f} s; {len(digest) - done} mails were read meanwhile")
        background = background or asyncio.create_task(write_digest(ChatAgentRT(model=name), mails, digest))
    assert background is not None
    await background
    print(f"\nThe digest of {len(digest)} mails:", *dict.fromkeys(digest.values()), sep="\n- ")
    print(f"\n{report_of(model)}")


def main(
    mailbox: Annotated[
        Path | None, typer.Option(help="A Maildir or an mbox file; by default sample mails.")
    ] = None,
    model: Model = "nano",
) -> None:
    """Write a digest of a mailbox in the background, beside questions of the user."""
    fields = [{"from": who, "subject": about, "body": text} for who, about, text in SAMPLE * 10]
    sample = {f"m{number}": mail for number, mail in enumerate(fields, 1)}
    asyncio.run(converse(model, read_mailbox(mailbox) if mailbox else sample))


if __name__ == "__main__":
    run_script(main)
