"""The tools of ``/v1/responses`` in the form of chat completions, their choice, and their namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentrt.errors import InvalidRequestError
from agentrt.finite import shown

from ...request.validation import check_tools

CHOICES: Final = (None, "auto", "none", "required")
_NOT_OFFERED: Final = ("web_search",)
"""Types of tools that the model is not shown, and may do without: agents send them with every request."""
_BETWEEN: Final = "__"


def is_offered(tool: Any) -> bool:
    """Whether the model is shown a tool of this type."""
    return _kind(tool) not in _NOT_OFFERED


def offered_tools(tools: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tools that the model is offered, each with its place in the request.

    It knows no namespaces: the functions of one have its name before theirs. What is no function in a
    namespace is not offered.
    """
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        if _is_namespace(tool):
            for number, each in enumerate(tool["tools"]):
                if _kind(each) == "function":
                    yield (
                        f"{place}.tools[{number}]",
                        {**each, "name": name_in(tool["name"], each.get("name"))},
                    )
        elif is_offered(tool):
            yield place, tool


def name_in(namespace: Any, name: Any) -> Any:
    """Return the model's name for the tool ``name`` of ``namespace``, or of none."""
    named = isinstance(namespace, str) and isinstance(name, str) and namespace and name
    return _prefix(namespace) + name if named else name


def split_name(namespace: str | None, name: str) -> dict[str, str]:
    """Return the fields of an item that say the same as the model's ``name`` of a tool of ``namespace``."""
    if namespace is None:
        return {"name": name}
    return {"namespace": namespace, "name": name.removeprefix(_prefix(namespace))}


def called_fields(tools: Sequence[Any], name: str) -> dict[str, str]:
    """Return the fields of a call that name one of ``tools``, which the model knows by ``name``."""
    for tool in filter(_is_namespace, tools):
        if any(name_in(tool["name"], each.get("name")) == name for each in _functions(tool["tools"])):
            return split_name(tool["name"], name)
    return {"name": name}


def chat_tools(tools: Sequence[Any]) -> list[Any]:
    """Return functions in the form of chat completions.

    Raises:
        InvalidRequestError: one is no function.
    """
    for index, tool in enumerate(tools):
        if (kind := _kind(tool)) == "namespace":
            raise InvalidRequestError(
                f"tools[{index}]",
                "needs a name and tools. Give {'type': 'namespace', 'name': …, 'tools': […]}.",
            )
        if kind != "function":
            built_in = f"there is no tool {shown(kind)} in this server" if kind else "it has no type"
            raise InvalidRequestError(
                f"tools[{index}]",
                f"{built_in}. Give functions: "
                "{'type': 'function', 'name': …, 'description': …, 'parameters': {…}}.",
            )
    return [_chat_function(tool) for tool in tools]


def allowed_tools(tools: Sequence[Mapping[str, Any]] | None, choice: Mapping[str, Any]) -> list[Any]:
    """Return those of ``tools`` that ``choice`` allows, and no other is offered to the model.

    Raises:
        InvalidRequestError: a tool is wrong, or the choice is or allows a tool that there is not.
    """
    check_tools(tools)
    allowed, mode = choice.get("tools"), choice.get("mode", "auto")
    if mode not in CHOICES or not isinstance(allowed, list) or not allowed:
        raise InvalidRequestError(
            "tool_choice",
            "must be {'type': 'allowed_tools', 'mode': 'auto' or 'required', 'tools': [{'type': 'function', "
            "'name': …}]}. Use this form.",
        )
    by_name = {tool["function"]["name"]: tool for tool in tools or ()}
    names = [chat_choice(each)["function"].get("name") for each in allowed]
    for name in names:
        if not isinstance(name, str) or name not in by_name:
            raise InvalidRequestError("tool_choice", f"tools has no {shown(name)}. Allow some of tools.")
    return [tool for name, tool in by_name.items() if name in names]


def shown_tool(tool: Any) -> Any:
    """Return a tool as a response shows it: a function with all its fields."""
    if tool.get("type") != "function":
        return tool
    unset = {"description": None, "parameters": None, "strict": None}
    return {"type": "function", **unset, **_chat_function(tool)["function"]}


def chat_choice(choice: Any) -> Any:
    """Return the choice of a function in the form of chat completions.

    Raises:
        InvalidRequestError: it is none.
    """
    if not isinstance(choice, Mapping) or choice.get("type") != "function":
        raise InvalidRequestError(
            "tool_choice",
            "must be 'auto', 'none', 'required' or {'type': 'function', 'name': …}. Use one of these.",
        )
    if "namespace" in choice:
        choice = {**choice, "name": name_in(choice["namespace"], choice.get("name"))}
    return _chat_function(choice)


def _chat_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a function in the nested format of chat completions; responses have it flat."""
    if "function" in tool:
        return tool
    kept = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in kept if key in tool}}


def _prefix(namespace: str) -> str:
    return namespace if namespace.endswith(_BETWEEN) else namespace + _BETWEEN


def _is_namespace(tool: Any) -> bool:
    return (
        _kind(tool) == "namespace"
        and isinstance(tool.get("name"), str)
        and tool["name"] != ""
        and isinstance(tool.get("tools"), list)
    )


def _functions(tools: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [tool for tool in tools if _kind(tool) == "function"]


def _kind(tool: Any) -> Any:
    return tool.get("type") if isinstance(tool, Mapping) else None
