"""MCP servers of the Agents SDK whose read-only tools can be run speculatively."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from agents.mcp import MCPServer
from mcp.types import CallToolResult, ToolAnnotations
from mcp.types import Tool as McpTool
from pydantic import PrivateAttr

from agentrt.adapting import SpeculableKeywords, SpeculableOptions, SpeculableTool
from agentrt.argument_checks import check_setting

from ..server_tools import bind, check_trusted, only_reads, options_of, speculative_result
from ..transparent_subclass import plain_class, transparent_subclass

Server = TypeVar("Server", bound=MCPServer)


def speculable_server(server: Server, *, trusted: bool, **options: Unpack[SpeculableKeywords]) -> Server:
    """Return ``server`` as one whose tools with a true ``readOnlyHint`` can be run speculatively.

    It is an instance of the same class with the same connection, for ``Agent(mcp_servers=[...])``. The hint
    is the server's own claim, so it counts only for a server that you trust. A tool with a true
    ``openWorldHint`` ``discloses`` its arguments, unless that option is given. ``options`` are those of
    :func:`agentrt.speculable`, for all tools. Tools that get metadata of the real call (``_meta``, a
    ``tool_meta_resolver``) or that agents see under the server's name (``include_server_in_tool_names``) are
    not run speculatively.

    Raises:
        ConfigurationError: ``server`` is none, it is not trusted, or an option is unknown or cannot work.
    """
    check_trusted(trusted)
    check_setting("server", server, MCPServer, "an MCPServer, such as MCPServerStdio(...)")
    declared = _DeclaredTools(dict[str, Any](options))
    base = plain_class(type(server))
    speculable: Any = object.__new__(transparent_subclass(base, SpeculableServer, _agentrt_declared=declared))
    speculable.__dict__ = server.__dict__
    return speculable  # type: ignore[no-any-return]


def described_by_annotations(annotations: object) -> SpeculableTool | None:
    """Return the description of the tool that a speculable server has listed with these annotations."""
    return annotations._agentrt if isinstance(annotations, _DescribedAnnotations) else None


class _DeclaredTools:
    """The speculable tools of one server by name, with the options of all."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        SpeculableOptions(**options)  # an error is raised here, not when the tools are listed
        self._options = options
        self.found: dict[str, SpeculableTool] = {}

    def declare(self, server: MCPServer, name: str, hints: ToolAnnotations) -> SpeculableTool:
        """Return the description of a tool: always the same one, which holds the tool's claims."""
        if name not in self.found:
            self.found[name] = SpeculableTool(
                name,
                bind=bind,
                call=None,
                acall=functools.partial(speculative_result, _plain_call(server), name),
                options=options_of(hints, self._options),
            )
        return self.found[name]


class _DescribedAnnotations(ToolAnnotations):
    """Annotations that carry the tool's description: the SDK makes new tools of them for each turn."""

    _agentrt: SpeculableTool | None = PrivateAttr(default=None)


# At run time the user's server is the base class.
if TYPE_CHECKING:
    _Base = MCPServer
else:
    _Base = object


class SpeculableServer(_Base):
    """Mixin of a server with speculable tools; ``super()`` is the user's server."""

    if TYPE_CHECKING:
        _agentrt_declared: _DeclaredTools

    async def list_tools(self, *args: Any, **kwargs: Any) -> list[McpTool]:
        """Return the server's tools; those that only read carry their description."""
        tools = await super().list_tools(*args, **kwargs)  # type: ignore[safe-super]
        if getattr(self, "tool_meta_resolver", None) is not None:
            return tools
        return [
            self._agentrt_described(tool) if only_reads(tool.annotations) and not tool.meta else tool
            for tool in tools
        ]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, *args: Any, **kwargs: Any
    ) -> CallToolResult:
        """Return the result of a call: of its speculation, if there is one without metadata."""
        run = functools.partial(super().call_tool, tool_name, arguments, *args, **kwargs)  # type: ignore[safe-super]
        described = self._agentrt_declared.found.get(tool_name)
        if described is None or args or kwargs:
            return await run()
        key = functools.partial(described.key_of, arguments or {})
        return await described.aclaim(None, key, run)

    def _agentrt_described(self, tool: McpTool) -> McpTool:
        assert tool.annotations is not None
        described = _DescribedAnnotations.model_validate(tool.annotations.model_dump(by_alias=True))
        described._agentrt = self._agentrt_declared.declare(self, tool.name, tool.annotations)
        return tool.model_copy(update={"annotations": described})


def _plain_call(server: MCPServer) -> Callable[..., Any]:
    """Return how the user's own server calls a tool."""
    return functools.partial(plain_class(type(server)).call_tool, server)
