"""What all commands do with their command lines."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose options have values: an empty path would be the working folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            BadParameter: the value of an option is empty.
        """
        given = self.given(ctx, args)
        for option in self.params:
            values = given.get(str(option.name)) if option.param_type_name == "option" else None
            if "" in (values if isinstance(values, list) else [values]):
                raise typer.BadParameter(
                    "it is empty. Give a value, or leave it out.", ctx=ctx, param_hint=option.opts[0]
                )
        return super().parse_args(ctx, args)

    def given(self, ctx: Any, args: list[str]) -> dict[str, Any]:
        """Return the values on the command line as they stand there, by the names of the parameters."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        return dict(given)
