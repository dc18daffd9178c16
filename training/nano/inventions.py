"""Requests to tools that are invented on the spot: lines over the tool's own verb, noun and parameters."""

from __future__ import annotations

from random import Random

from .tools import ASKING_VERBS, Tool

_JOINS = "for|of|on|to|at|by|with|from|via|through|under|in|about|against|as|behind|{unknown}"


def requests_to(tool: Tool, rng: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Request lines that fill every parameter of ``tool``: those of training, and the held-out ones."""
    verb, noun = tool.verb, tool.noun
    if not tool.parameters:
        return _bare_lines(tool), (f"it is time to {verb} the {noun} now", f"have a go at {verb} {noun}")
    slots = [(parameter.slot, name) for parameter, name in tool.parameters]
    first = "{" + slots[0][0] + "}"
    lines = _acting_lines(tool, first, slots[0][1].replace("_", " "))
    if verb in ASKING_VERBS:
        lines += _asking_lines(noun, first)
    line, rest = rng.choice(lines), ""
    for index, (slot, name) in enumerate(slots[1:]):
        joiner = rng.choice([" and ", ", ", " with "]) if index == 0 else " and "
        rest += joiner + name.replace("_", " ") + rng.choice([" ", " ", " ", ": ", " is "]) + f"{{{slot}}}"
    end = "?" if line.endswith("?") else ""
    held_out = (f"for {first} {verb} the {noun}", f"{verb} a {noun} using {first}")
    return (line.rstrip("?") + rest + end,), tuple(one + rest for one in held_out)


def _acting_lines(tool: Tool, first: str, shown: str) -> list[str]:
    verb, noun = tool.verb, tool.noun
    named = f"{shown} {first}"
    return [
        f"{verb} the {noun} [for|of|] {first}",
        f"{verb} {noun} {first}",
        f"{verb} [a|my|the|this|our|] {noun} [{_JOINS}] {first}",
        f"{verb} [a|my|the|this|our|] {noun} [{_JOINS}] {first}",
        f"{verb} the {noun} [called|named|with {shown}] {first}",
        f"{verb} the {noun} with {named}",
        f"{verb} the {noun} [of|for|at|in] {named}",
        f"{verb} the {noun} [whose|where the] {shown} is {first}",
        f"{verb} [a|my|the] {noun}, {named}",
        f"{verb} [a|my|the] {noun} ({named})",
        f"{verb} [the|my|a|] {noun}: {first}",
        f"{verb} {first}[,|] {noun}",
        f"{verb} {first}",
        f"{verb} [the|our|my|] {first} {noun}",
        f"{verb} {first}'s {noun}",
        f"[I want|I need|I have|I would like|I'd like] to {verb} [the|a|my] {noun} [{_JOINS}|] {first}",
        f"[we|you] [should|must|have to] {verb} [the|a] {noun} [{_JOINS}] {first}",
        f"[it is|it's] time to {verb} [the|a] {noun} [{_JOINS}] {first}",
        f"[use|call|try|run|take] {tool.name} [with|for|on|and|] {first}",
        f"[with|by|on|in|at|about|from|to|under|{{unknown}}] {first}[,|] {verb} [the|a|my] {noun}",
        f"{first}: {verb} [the|a|my|] {noun}",
        f"{noun} {verb} [{_JOINS}|] {first}",
        f"the {noun} [{_JOINS}] {first} [needs|wants] {verb}",
        f"{{unknown}} the {noun} [{_JOINS}] {first}",
        f"[{{unknown}}|please|] [a|the|my|our|some] {noun} [{_JOINS}] {first}",
        f"[can|could|would] you {verb} [a|the|my|our|] {noun} [{_JOINS}|] {first}?",
        f"[can|could] [I|we] {verb} [a|the|my|our|] {noun} [{_JOINS}|] {first}?",
    ]


def _asking_lines(noun: str, first: str) -> list[str]:
    return [
        f"[what is|what's|which is|how is|how's] the {noun} [of|for|from|at|in|on] {first}?",
        f"[what is|what's|which is] the {noun} [of|for|from|at|in|on] {first} [now|today|at the moment|this week|currently|right now]?",
        f"[what are|what're|which are] the {noun}s [of|for|from|at|in|on] {first}?",
        f"[tell me|show me|give me|I need|let me see] the {noun} [of|for|from|at|in|on] {first}",
        f"[which|what] {noun} [has|is at|belongs to|does] {first} [have|]?",
        f"[what is|what's] {first}'s {noun}?",
        f"[what|which] {noun}[s|] [are there|is there|do we have|can I get|are left] [of|for|from|at|in|on] {first}?",
        f"how [many|much] {noun}[s|] [does|did|has|do] {first} [have|need|got|make]?",
        f"how [many|much] {noun}[s|] [is there|are there|is left|are left] [of|for|from|at|in|on] {first}?",
        f"how [high|big|long|good|bad|strong|old|late|low|far|busy] is the {noun} [of|for|from|at|in|on] {first}?",
        f"[when|where] [is|was|will be|are] the {noun}[s|] [of|for|from|at|in|on] {first}?",
        f"[when|where] does {first} have [a|its|the|] {noun}[s|]?",
        f"[who|what] is the {noun} [of|for|from|at|in|on] {first}?",
        f"[is there|are there|do we have|do I have|was there] [a|any|some|] {noun}[s|] [of|for|from|at|in|on] {first}?",
        f"[do you know|can you tell me|could you check|can you look up|could you find] the {noun} [of|for|from|at|in|on] {first}?",
        f"{noun} [of|for|from|at|in|on|] {first}",
        f"{noun} [of|for|from|at|in|on|] {first}?",
        f"{first} {noun}",
        f"{first}'s {noun}",
        f"[any|what] {noun}[s|] [of|for|from|at|in|on] {first} [today|tonight|now|this week|tomorrow|]?",
        f"[I want|I need|I'd like|I would like] [to know|to see|to hear|] the {noun} [of|for|from|at|in|on] {first}",
        f"[find out|look up|check|see|tell me|say] [what|which] {noun} {first} has",
    ]


def _bare_lines(tool: Tool) -> tuple[str, ...]:
    verb, noun = tool.verb, tool.noun
    lines = [
        f"{verb} [the|my|our|all|a|this|] {noun}[s|]",
        f"{verb} [the|my|our|] {noun} [now|again|once more|today]",
        f"[I want|I need|I would like|I'd like] to {verb} [the|my|a|] {noun}",
        f"[can|could|would] you {verb} [the|my|a|our|] {noun}[s|]?",
        f"[use|call|try|run] {tool.name}",
        f"[we|you] [should|must|have to] {verb} [the|my|a|] {noun}",
        f"[the|my|] {noun}[s|], please",
        f"{{unknown}} the {noun}",
        f"{noun} {verb}",
    ]
    if verb in ASKING_VERBS:
        lines += [
            f"[what is|what's|how is|which is|who is|where is|when is] [the|my|our] {noun} [now|today|right now|]?",
            f"[what are|which are] [the|my|our] {noun}s [now|today|right now|]?",
            f"[tell me|show me|give me|I need|let me see|let me have] [the|my|a|all] {noun}[s|]",
            f"[do I have|do we have|are there|is there] [any|a|some|new|] {noun}[s|] [today|now|]?",
            f"[which|what] {noun}[s|] [do I have|do we have|are there|is there]?",
            f"how many {noun}s [do I have|do we have|are there]?",
            f"[any|some] [new|] {noun}[s|]?",
        ]
    return tuple(lines)
