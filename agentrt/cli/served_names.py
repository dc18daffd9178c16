"""The values of ``--served-model-name``: names of the models of a server."""

from __future__ import annotations

from collections.abc import Sequence

import typer

_OPTION = "--served-model-name"


def names_of_models(models: Sequence[str], served_names: Sequence[str]) -> list[list[str]]:
    """Return the names given to each of ``models``, in their order; a model without any has its own.

    A served name is ``NAME``, where there is one model, or ``NAME=MODEL``, where ``MODEL`` is one of them;
    a ``~`` in it is expanded, as the shell expands only that of ``--model ~/FILE``.

    Raises:
        BadParameter: a name does not say whose it is, is that of a model that is not among ``models``, or is
            given twice.
    """
    from agentrt.runtime.model.directory import path_of

    paths = [path_of(model) for model in models]
    names: list[list[str]] = [[] for _ in models]
    for served in served_names:
        name, separator, model = served.partition("=")
        if not name or (separator and not model):
            raise typer.BadParameter(
                f"{served!r} is no name. Give NAME, or NAME=MODEL with several models.", param_hint=_OPTION
            )
        if not separator and len(models) > 1:
            raise typer.BadParameter(
                f"{name!r} does not say which model it names. Give {name}=MODEL, where MODEL is one of "
                f"{', '.join(models)}.",
                param_hint=_OPTION,
            )
        if separator and path_of(model) not in paths:
            raise typer.BadParameter(
                f"{model!r} in {served!r} is no value of --model. Give one of {', '.join(models)}.",
                param_hint=_OPTION,
            )
        of_model = names[paths.index(path_of(model)) if separator else 0]
        if name in of_model:
            raise typer.BadParameter(f"{served!r} is given twice. Give it once.", param_hint=_OPTION)
        of_model.append(name)
    return names
