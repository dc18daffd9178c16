"""How many tokens the answers to one request may have."""

from __future__ import annotations

from agentrt.errors import InvalidRequestError

from ...request.options import GenerationOptions
from .logprobs import MAX_LOGPROBS


def bound_answers(options: GenerationOptions, default: int | None, answers: int = 1) -> None:
    """Set ``max_tokens`` of ``options`` where the request has none: ``default`` tokens, if it is a number.

    All ``answers`` have at most :data:`MAX_LOGPROBS` log probabilities together.

    Raises:
        InvalidRequestError: the request asks for more of them by a larger ``max_tokens``.
    """
    given, alternatives = options.get("max_tokens"), options.get("logprobs")
    bound = default if given is None else given
    if alternatives is not None:
        most = max(1, MAX_LOGPROBS // (answers * (1 + alternatives)))
        if given is not None and given > most:
            raise InvalidRequestError(
                "logprobs",
                f"{answers} answers of {given} tokens with {alternatives} alternatives each have more than "
                f"{MAX_LOGPROBS} log probabilities. Ask for at most {most} tokens, or for fewer alternatives "
                "or answers.",
            )
        bound = most if bound is None else min(bound, most)
    if bound is not None:
        options["max_tokens"] = bound
