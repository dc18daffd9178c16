"""Grammar drafts: what an answer's grammar forces, and what is likely where it leaves a choice."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Self

from ..scheduler.draft import Draft
from ..structured_output.grammar_matcher import GrammarMatcher
from .drafter import DraftCompleter
from .grammar_history import Following, GrammarHistory, PromptValues, TokenClass, TokenTexts

_MOST_TOKENS: Final = 64
_LEAST_REACHED: Final = 0.05
"""Higher than :data:`LEAST_REACHED` of the other drafts, of which no token takes a step of a matcher."""

_FORCED: Final = TokenClass("forced", 0.98)
"""The text is forced; the model may write it in other tokens."""
_ONLY_END: Final = TokenClass("only end", 1.0)
_END: Final = TokenClass("end", 0.8)
_COPIED: Final = {
    Following.WORD_PART: 0.9,
    Following.LIKE_WORD: 0.6,
    Following.OTHER_WORD: 0.2,
    Following.PUNCTUATION: 0.05,
}
"""How likely a value goes on as in the prompt, before anything was learned."""
_CLOSED: Final = {
    Following.NOTHING: 0.4,
    Following.WORD_PART: 0.05,
    Following.LIKE_WORD: 0.3,
    Following.OTHER_WORD: 0.6,
    Following.PUNCTUATION: 0.8,
}
"""How likely a value ends, by what follows its text in the prompt."""
_EMPTY: Final = 0.1
"""How likely a list or object is empty."""
_REMEMBERED: Final = TokenClass("remembered", 0.5)
_CLASS_LENGTHS: Final = 4
"""Lengths of values that are classes of their own."""


class _Step(NamedTuple):
    """A draft token and its class."""

    token: int
    token_class: TokenClass


class _Piece(NamedTuple):
    """A part of a text, and the class of the tokens in it."""

    text: bytes
    token_class: TokenClass


class _Way(NamedTuple):
    """Tokens that may follow a position."""

    steps: list[_Step]
    rivals: list[_Step]
    """What else may stand at the place of the first token."""
    ends: bool = False
    """Whether nothing can be drafted behind it."""


class GrammarDrafter(DraftCompleter):
    """Completes the drafts of an answer that is held to a grammar.

    Forced text is tokenized as the model writes it. Where the grammar leaves a choice, the draft goes on with
    the value that stood there in the app's last answer. A value that has begun is copied from the prompt as
    long as that is likelier than its end, behind which more text is forced: the rest of a tool call mostly.
    All probabilities are learned, for each app.
    """

    def __init__(
        self,
        matcher: GrammarMatcher,
        texts: TokenTexts,
        prompt: Sequence[int],
        end_token: int | None,
        history: GrammarHistory,
    ) -> None:
        """``matcher`` is the one that the sampler advances; ``end_token`` is drafted behind the last call."""
        self._position = GrammarPosition(matcher, texts)
        self._texts = texts
        self._prompt = PromptValues(prompt, texts)
        self._end_token = end_token
        self._history = history
        self._expected: list[tuple[int, list[_Step]]] = []
        self._split: tuple[int, tuple[int, ...]] | None = None

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`; the matcher has accepted the token."""
        self._learn(token)
        position = self._position
        position.note(token)
        complete = position.forced or position.matcher.may_end
        if complete and position.context and 0 < len(position.value) < MOST_BYTES:
            self._history.values.put(position.context, position.value)

    def _learn(self, token: int) -> None:
        if self._split is not None:
            whole, parts = self._split
            self._learn_split(whole, (*parts, token))
        if not self._expected:
            return
        drafted, rivals = self._expected.pop(0)
        for step in rivals:
            self._history.learn(step.token_class, accepted=step.token == token)
        if token != drafted:
            self._expected = []
            self._history.splits.pop(token, None)
            if self._split is None:
                self._learn_split(drafted, (token,))

    def _learn_split(self, whole: int, parts: tuple[int, ...]) -> None:
        """Note that the model wrote ``parts`` where the token ``whole`` was drafted."""
        expected, written = self._texts.token_bytes[whole], self._texts.of(parts)
        self._split = None
        if written == expected:
            if len(parts) > 1:
                self._history.splits[whole] = parts
        elif expected.startswith(written):
            self._split = (whole, parts)

    def complete(self, draft: Draft) -> Draft:
        """See :meth:`DraftCompleter.complete`."""
        matcher = self._position.matcher
        own = not draft.tokens
        if not (draft.tokens or matcher.active or matcher.may_end):
            return draft
        position = self._position.fork()
        draft = self._allowed(draft, position)
        expected: list[tuple[int, list[_Step]]] = []
        if not draft.tokens or draft.tokens[-1] != self._end_token:
            expected = self._continue(position, draft)
        if own:
            self._expected = expected
        steps = [rivals[0] for _, rivals in expected]
        return Draft(
            draft.tokens + tuple(step.token for step in steps),
            draft.probabilities + tuple(self._history.probability(step.token_class) for step in steps),
        )

    def _allowed(self, draft: Draft, position: GrammarPosition) -> Draft:
        """Return the first tokens of ``draft``, all allowed, and advance ``position`` along them.

        They are the tokens that the model is known to write their text in.
        """
        forced = self._history.probability(_FORCED)
        tokens: list[int] = []
        probabilities: list[float] = []
        for whole, probability in zip(draft.tokens, draft.probabilities, strict=True):
            for token in self._history.splits.get(whole, (whole,)):
                if not position.matcher.allows(token):
                    return Draft(tuple(tokens), tuple(probabilities))
                follows = position.forced.startswith(self._texts.token_bytes[token] or b"\0")
                tokens.append(token)
                probabilities.append(max(probability, forced) if follows else probability)
                position.advance(token)
        return Draft(tuple(tokens), tuple(probabilities))

    def _continue(self, position: GrammarPosition, draft: Draft) -> list[tuple[int, list[_Step]]]:
        """Return the tokens that are likeliest to follow, each with itself and its rivals to learn from."""
        reached = 1.0
        for probability in draft.probabilities:
            reached *= probability
        found: list[tuple[int, list[_Step]]] = []
        while len(draft.tokens) + len(found) < _MOST_TOKENS and reached >= _LEAST_REACHED:
            way = self._likeliest(position)
            if way is None:
                break
            for number, step in enumerate(way.steps):
                found.append((step.token, [step, *(way.rivals if number == 0 else ())]))
                reached *= self._history.probability(step.token_class)
            if way.ends:
                break
        return found

    def _likeliest(self, position: GrammarPosition) -> _Way | None:
        """Return the likeliest way on, None if there is none, and advance ``position`` along it."""
        matcher = position.matcher
        if matcher.must_end or (matcher.may_end and not position.forced):
            if self._end_token is None:
                return None
            end = _Step(self._end_token, _ONLY_END if matcher.must_end else _END)
            return _Way([end], [], ends=True)
        if not matcher.active:
            return None
        if position.forced or not position.value_tokens:
            steps = self._forced_steps(position)
            if steps:
                return self._follow(position, steps, [])
        ways = sorted(
            self._free_ways(position), key=lambda steps: -self._history.probability(steps[0].token_class)
        )
        if not ways:
            return None
        return self._follow(position, ways[0], [steps[0] for steps in ways[1:]])

    def _follow(self, position: GrammarPosition, steps: list[_Step], rivals: list[_Step]) -> _Way | None:
        """Advance ``position`` along ``steps``, up to the first that is not allowed."""
        taken: list[_Step] = []
        for step in steps:
            if not position.matcher.allows(step.token):
                break
            position.advance(step.token)
            taken.append(step)
        if not taken:
            return None
        last = taken[-1]
        if last.token_class is _FORCED and not (position.forced or position.matcher.may_end):
            # It may be merged with the text behind it.
            taken[-1] = _Step(last.token, _before_value(self._texts.token_bytes[last.token]))
        return _Way(taken, rivals)

    def _forced_steps(self, position: GrammarPosition) -> list[_Step]:
        """Return the tokens of the forced text, and of the value that stood behind it in the last answer."""
        pieces = [_Piece(position.forced, _FORCED)]
        value = self._history.values.get(position.forced_context)
        behind = position.behind(position.forced + value) if value else None
        if value and behind is not None:
            pieces += [_Piece(value, _REMEMBERED), _Piece(behind.forced, _FORCED)]
        return self._steps(pieces)

    def _steps(self, pieces: Sequence[_Piece]) -> list[_Step]:
        """Return the tokens of the whole text, each of the first class in it that is not forced."""
        steps: list[_Step] = []
        end = 0
        for token in self._history.tokenize(b"".join(piece.text for piece in pieces), self._texts):
            begin, end = end, end + len(self._texts.token_bytes[token])
            steps.append(_Step(token, _class_between(begin, end, pieces)))
        return steps

    def _free_ways(self, position: GrammarPosition) -> Iterator[list[_Step]]:
        """Yield the steps of each way in which the value may go on."""
        following, token = Following.NOTHING, None
        if position.value:
            following, token = self._prompt.continuation(position.value)
        length = min(position.value_tokens, _CLASS_LENGTHS)
        if token is not None and position.matcher.allows(token):
            yield [_Step(token, TokenClass("copied", _COPIED[following], (following.value, length)))]
        for closing, behind in _closings(position):
            prior = _CLOSED[following] if length else _EMPTY
            token_class = TokenClass("closed", prior, (closing.decode(), following.value, length))
            if steps := self._steps([_Piece(closing, token_class), _Piece(behind.forced, _FORCED)]):
                yield steps


def _closings(position: GrammarPosition) -> Iterator[tuple[bytes, GrammarPosition]]:
    """Yield the texts that may close a value, and the position behind each."""
    closed, quote = position, b""
    if (inside := position.behind(b'"')) is not None:
        if not position.value_tokens:
            return  # it opens or ends a string
        closed, quote = inside, b'"'
        if closed.forced or closed.matcher.may_end:
            yield quote, closed
            return
    for sign in (b",", b"}", b"]"):
        if (behind := closed.behind(sign)) is not None:
            yield quote + sign, behind


def _class_between(begin: int, end: int, pieces: Sequence[_Piece]) -> TokenClass:
    """Return the class of a token of the text of ``pieces``."""
    at = 0
    for text, token_class in pieces:
        if at < end and at + len(text) > begin and token_class is not _FORCED:
            return token_class
        at += len(text)
    return _FORCED


def _before_value(text: bytes) -> TokenClass:
    """Return the class of a forced token behind which the grammar leaves a choice."""
    merges = text.isspace() or text[-1:].isalnum()
    return TokenClass("before value", 0.5 if merges else 0.9, (text.isspace(), merges))


MOST_BYTES: Final = 64
"""Bytes of a value, and of the text before it, that are known: the last ones."""


class GrammarPosition:
    """The state of the grammar, and the *value*: the text since the last place that the grammar forced."""

    def __init__(self, matcher: GrammarMatcher, texts: TokenTexts) -> None:
        """``matcher`` may be advanced by others: then call :meth:`note` for each token."""
        self.matcher = matcher
        self.forced = matcher.forced_bytes()
        """The text that must follow."""
        self.value = b""
        """The last bytes of the value."""
        self.value_tokens = 0
        """Number of tokens of the value, counting one that begins before it."""
        self.context = b""
        """The last bytes before the value; empty where the answer is not restricted."""
        self._text = b""
        self._texts = texts

    def fork(self) -> Self:
        """Return the same position, which advances on its own."""
        forked = copy.copy(self)
        forked.matcher = self.matcher.copy()
        return forked

    def behind(self, text: bytes) -> Self | None:
        """Return the position behind ``text``; None if the grammar does not allow it."""
        position = self.fork()
        for byte in text:
            token = self._texts.byte_token(byte)
            if token is None or not position.matcher.allows(token):
                return None
            position.advance(token)
        return position

    @property
    def forced_context(self) -> bytes:
        """What :attr:`context` will be behind the text that must follow."""
        return (self._text + self.forced)[-MOST_BYTES:] if self.forced else self.context

    def advance(self, token: int) -> None:
        """Go on by a token that the grammar allows."""
        self.matcher.accept_token(token)
        self.note(token)

    def note(self, token: int) -> None:
        """Go on by a token that the matcher has accepted already."""
        if not self.matcher.active:
            self.forced = self.value = self.context = self._text = b""
            self.value_tokens = 0
            return
        text = self._texts.token_bytes[token]
        if self.forced:
            # A token may begin with forced text and end in free text.
            self.context = (self._text + text[: len(self.forced)])[-MOST_BYTES:]
            self.value, self.value_tokens = text[len(self.forced) :], len(text) > len(self.forced)
        else:
            self.value = (self.value + text)[-MOST_BYTES:]
            self.value_tokens += 1
        self._text = (self._text + text)[-MOST_BYTES:]
        self.forced = self.matcher.forced_bytes()
