"""Prompts of the bench's own: messages to reply to in the style of earlier replies, and code to change."""

from __future__ import annotations

from typing import Final

_STYLE: Final = (
    "Hi Mara, thanks for your message. Tuesday works for me. I will bring the forms. Best regards, Jonas",
    "Hi Piet, thanks for your message. The invoice is paid; the receipt is attached. Best regards, Jonas",
    "Hi Mara, thanks for your message. I am away until Monday and will answer then. Best regards, Jonas",
    "Hi Olga, thanks for your message. The second draft reads well; two remarks are in the margin. "
    "Best regards, Jonas",
)
_MESSAGES: Final = (
    "Piet: The parcel with the sample tiles has not arrived. Could you send the tracking number once more?",
    "Olga: The committee moved the review to Thursday at ten, room 4.12. Can you still present the budget?",
    "Mara: We need the signed forms for the school trip by Friday. Did you post them?",
    "Ines: Your car is ready. The front brakes were replaced, too; the bill is 412 euros. When can you come?",
    "Tomas: The rehearsal on Sunday begins at three instead of four, because the hall is let in the evening.",
    "Olga: I have attached the third draft. Please look at the chapter on costs before Wednesday noon.",
    "Piet: The tracking number does not work. The carrier says that the parcel was never handed over.",
    "Ines: Please confirm that you collect the car on Saturday between nine and twelve.",
)


def replies() -> list[str]:
    """Return requests for a reply, each with earlier replies of the same person."""
    earlier = "\n\n".join(_STYLE)
    return [
        f"These are replies that I wrote:\n\n{earlier}\n\n"
        f"Write my reply to this message in the same style:\n\n{message}"
        for message in _MESSAGES
    ]


_CODE: Final = (
    '''def merge_intervals(intervals):
    """Return the union of closed intervals as sorted, disjoint pairs."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged''',
    '''def read_settings(path, defaults):
    """Read key = value lines; lines that begin with # are comments."""
    settings = dict(defaults)
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            key, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"{path}:{number}: expected key = value")
            settings[key.strip()] = value.strip()
    return settings''',
    '''class MovingAverage:
    """The mean of the last values."""

    def __init__(self, size):
        self.size = size
        self.values = []
        self.total = 0.0

    def add(self, value):
        self.values.append(value)
        self.total += value
        if len(self.values) > self.size:
            self.total -= self.values.pop(0)
        return self.total / len(self.values)''',
    '''def shortest_path(graph, source, target):
    """Return the nodes of a shortest path, or None; graph maps a node to {neighbour: distance}."""
    queue = [(0, source, None)]
    previous = {}
    while queue:
        distance, node, parent = heapq.heappop(queue)
        if node in previous:
            continue
        previous[node] = parent
        if node == target:
            path = []
            while node is not None:
                path.append(node)
                node = previous[node]
            return path[::-1]
        for neighbour, length in graph[node].items():
            if neighbour not in previous:
                heapq.heappush(queue, (distance + length, neighbour, node))
    return None''',
)
_CHANGES: Final = (
    (0, "with the variable `merged` renamed to `union`"),
    (1, "with the parameter `path` renamed to `filename`"),
    (2, "with a method `mean` that returns the present mean without adding a value"),
    (3, "with the variable `previous` renamed to `parents`"),
    (0, "with type hints"),
    (1, "with comments that begin with ; as well"),
    (2, "with the attribute `values` replaced by a `collections.deque`"),
    (3, "so that it returns the distance together with the path"),
)


def code_edits() -> list[str]:
    """Return requests to return code from the prompt with one change."""
    return [
        f"Return this code {change}. Change nothing else and explain nothing.\n\n"
        f"```python\n{_CODE[place]}\n```"
        for place, change in _CHANGES
    ]
