"""The drawn tree in agentrt.errors is the real one."""

import inspect
import re

from agentrt import errors


def drawn_tree() -> dict[str, str | None]:
    """Class name -> name of the class it is drawn under; classes without others below may share a line."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^ {4}((?:│ {3}| {4})*)(├── |└── |)([A-Za-z]+Error\b.*)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + bool(found[2])
        names = re.findall(r"[A-Za-z]+Error", found[3])
        parents |= dict.fromkeys(names, path[depth - 1] if depth else None)
        path[depth:] = [names[-1]]
    return parents


def test_every_error_is_drawn_under_its_base() -> None:
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }

    real = {name: kind.__bases__[0].__name__ for name, kind in classes.items()}
    assert real.pop("AgentRTError") == "Exception"
    drawn = drawn_tree()
    assert drawn.pop("AgentRTError") is None
    assert drawn == real


def test_every_error_says_what_it_is() -> None:
    undocumented = [name for name, kind in vars(errors).items() if inspect.isclass(kind) and not kind.__doc__]

    assert undocumented == []
