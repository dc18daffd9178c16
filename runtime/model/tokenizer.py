"""Chat messages to tokens, and tokens to text, with the model's own chat template and tokenizer."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import openvino_genai

from agentrt.calls import ToolCall, takes_tools
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import AgentRTError, InvalidRequestError, ModelFormatError

from .chat_template import template_syntax_error
from .detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer
from .directory import ModelDirectory
from .openvino_core import load_on_own_thread, openvino_message
from .tokenizer_graph import check_texts, decoded_vocabulary, special_token_pattern
from .tool_prompt import with_system_in_user_message, with_tool_prompt
from .vocabulary_facts import VocabularyFacts, encode_texts

_REASONING_TAG: Final = re.compile(r"</?think>")
"""Tags by which chat templates find the reasoning in earlier answers, most of them to leave it out."""
_CALL_CHARACTERS: Final = 1 << 14
"""Longer texts are cut between words: a call holds Python's global lock, for so many a millisecond or two."""
_MAX_UNBROKEN_CHARACTERS: Final = 1 << 19
"""The longest text that is not cut, which takes up to a tenth of a second."""
_BATCH_CHARACTERS: Final = 1 << 16
"""Texts that are tokenized in one call have this many characters when all are as long as the longest."""


class Tokenizer:
    """The tokenizer and chat template of one model. Thread-safe; independent of the engine.

    No message, tool definition or call can forge the template's markup: the text of a special token in it,
    such as ``<|im_end|>``, is encoded as ordinary characters. That holds for each role, since applications
    put the texts of others into system messages, and models repeat them in answers.
    """

    def __init__(self, directory: ModelDirectory, vocabulary_size: int, *, tool_prompt: bool = True) -> None:
        """Load the tokenizer, detokenizer and chat template of ``directory``.

        ``vocabulary_size`` is that of the model, which is often padded beyond that of the tokenizer.
        ``tool_prompt`` describes tools in the system message where the chat template takes none.

        Raises:
            ModelFormatError: one of them is damaged or cannot be loaded, the chat template cannot be parsed,
                or it or the end token is missing.
        """
        with _loading_errors(directory):
            for graph in ("openvino_tokenizer.xml", "openvino_detokenizer.xml"):
                check_texts(directory.path / graph)
            self._load(directory, vocabulary_size)
        self.writes_tool_prompt = tool_prompt and not takes_tools(self.chat_template)
        """Whether tools are described by :mod:`agentrt.runtime.model.tool_prompt`."""
        # Stands inside the text of forged special tokens while the template is applied. Random, so that no
        # message can contain it; letters and digits, so that no template treats it specially.
        self._separator = secrets.token_hex(16)

    def _load(self, directory: ModelDirectory, vocabulary_size: int) -> None:
        self._tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(directory.path)))
        self.chat_template: str = self._tokenizer.chat_template
        if not self.chat_template:
            raise ModelFormatError(
                f"{directory.path} has no chat template. Copy chat_template.jinja or tokenizer_config.json "
                "of the original model into that directory; base models without one cannot chat."
            )
        syntax_error = template_syntax_error(self._tokenizer)
        if syntax_error is not None:
            raise ModelFormatError(
                f"the chat template of {directory.path} cannot be parsed: {syntax_error}. Export the model "
                "or convert its tokenizer again with the chat template of the original model."
            )
        named: int = self._tokenizer.get_eos_token_id()
        self.end_token: int | None = named if 0 <= named < vocabulary_size else None
        """The end token that the tokenizer names; models may have others, too."""
        stated = {*directory.end_token_ids, named}
        self.end_token_ids = frozenset(token for token in stated if 0 <= token < vocabulary_size)
        if not self.end_token_ids:
            raise ModelFormatError(
                f"{directory.path} has no end token, so that no answer would end. "
                "Set eos_token_id in generation_config.json."
            )
        self._special_token = special_token_pattern(directory.path / "openvino_tokenizer.xml")
        decoded = decoded_vocabulary(directory.path / "openvino_detokenizer.xml") or self._spelled_tokens()
        facts = VocabularyFacts.stored(directory.path, vocabulary_size)
        if facts is None:
            facts = VocabularyFacts.find(self._tokenizer, vocabulary_size, decoded)
        self._hidden, self._longest_token = frozenset(facts.hidden), facts.longest_token
        table = [b"" if id in self._hidden else token for id, token in enumerate(decoded)]
        table += [b""] * (vocabulary_size - len(table))
        self.token_bytes = table if facts.concatenates else None
        """The bytes of each token, empty for hidden tokens; None if texts of tokens do not concatenate."""
        self._untold = {
            id: decoded[id].decode("utf-8", "replace") for id in facts.untold if id < len(decoded)
        }
        breaks = facts.word_breaks
        self._word_end = re.compile(f"(?<=[A-Za-z])(?=[{breaks}][A-Za-z])") if breaks else None
        self.text_prefix = facts.text_prefix
        """The tokens that the tokenizer puts before a text that no template has written: often none."""
        self.fingerprint = bytes.fromhex(facts.fingerprint)
        """A digest of the vocabulary: equal where each token id stands for the same text."""

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        """Apply the chat template, up to the header of the assistant's answer, for :meth:`encode`.

        Raises:
            InvalidRequestError: the template rejects these messages.
        """
        escaped_messages = [self._escape_message(message) for message in messages]
        escaped_tools = None if tools is None else [self._escape(tool) for tool in tools]
        if not self.writes_tool_prompt:
            return self._apply_template(escaped_messages, escaped_tools)
        plain = with_tool_prompt(escaped_messages, escaped_tools)
        try:
            return self._apply_template(plain, None)
        except InvalidRequestError:
            if tools is None or plain[0]["role"] != "system":
                raise
            return self._apply_template(with_system_in_user_message(plain), None)

    def _apply_template(
        self, escaped_messages: list[dict[str, Any]], escaped_tools: list[dict[str, Any]] | None
    ) -> str:
        try:
            with native_calls:
                rendered: str = self._tokenizer.apply_chat_template(
                    escaped_messages, add_generation_prompt=True, tools=escaped_tools
                )
        except (RuntimeError, TypeError) as error:
            reason = re.search(r"Minja's error: (.*)", str(error))
            raise InvalidRequestError(
                "messages",
                f"the model's chat template rejects them: {reason[1] if reason else error}. "
                "Use the roles, and the order of roles, that this model was trained with.",
            ) from error
        return rendered

    def encode(self, rendered: str, progress: Callable[[int], None] = lambda tokens: None) -> list[int]:
        """Tokenize a text that :meth:`render` returned, or a part of it.

        ``progress`` is called with the number of tokens so far, before each part of some milliseconds. What
        it raises ends the work.

        Raises:
            InvalidRequestError: the text has no space between letters for too long.
            ModelFormatError: the tokenizer is damaged.
        """
        tokens: list[int] = []
        pieces = rendered.split(self._separator)
        for batch in _batches(part for piece in pieces for part in self._parts(piece)):
            progress(len(tokens))
            tokens += self._encode_batch(batch)
        return tokens

    def _encode_batch(self, texts: list[str]) -> list[int]:
        return encode_texts(self._tokenizer, texts)

    def _parts(self, text: str) -> Iterator[str]:
        """Cut a long text between words, where its tokens are those of its parts."""
        start = 0
        while self._word_end is not None and len(text) - start > _CALL_CHARACTERS:
            end = self._word_end.search(text, start + _CALL_CHARACTERS)
            if end is None:
                break
            yield text[start : end.start()]
            start = end.start()
        if len(text) - start > _MAX_UNBROKEN_CHARACTERS:
            raise InvalidRequestError(
                "messages",
                f"a text has more than {_MAX_UNBROKEN_CHARACTERS} characters that this model's tokenizer "
                "cannot divide. Shorten it, or break it into words.",
            )
        yield text[start:]

    def least_tokens(self, characters: int) -> int:
        """Return the fewest tokens that a text of so many characters may have; 0 if that is not known."""
        return 0 if self.token_bytes is None else characters // self._longest_token

    def most_characters(self, tokens: int) -> int:
        """Return a number of characters of which there are none more in so many tokens."""
        return tokens * self._longest_token

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ``tokens``, without special tokens except those that mark tool calls."""
        shown = [token for token in tokens if token not in self._hidden]
        with native_calls:
            return str(self._tokenizer.decode(shown, skip_special_tokens=False))

    def decode_all(self, tokens: Sequence[int]) -> str:
        """Return the text of ``tokens``, with that of all special tokens."""
        texts = []
        for untold, run in itertools.groupby(tokens, self._untold.get):
            if untold is not None:
                texts += [untold for _ in run]
                continue
            with native_calls:
                texts.append(str(self._tokenizer.decode(list(run), skip_special_tokens=False)))
        return "".join(texts)

    def detokenizer(self) -> Detokenizer:
        """Return a new incremental detokenizer for one answer."""
        if self.token_bytes is not None:
            return ByteDetokenizer(self.token_bytes)
        return WindowDetokenizer(self.decode, self._hidden)

    def token_text(self, token: int) -> str:
        """Return the text of one token, also of a special token."""
        return self.decode_all([token])

    def escape_special_tokens(self, text: str) -> str:
        """Return ``text`` such that :meth:`encode` encodes special tokens in it as ordinary characters."""
        return str(self._escape(text))

    def escape_call(self, call: ToolCall) -> ToolCall:
        """Return ``call`` with the texts of its arguments as :meth:`escape_special_tokens` returns them."""
        return ToolCall(call.name, self._escape(call.arguments))

    def unescape(self, rendered: str) -> str:
        """Return the text that :meth:`encode` encodes for ``rendered``."""
        return rendered.replace(self._separator, "")

    def _escape_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        escaped = dict(self._escape(message))
        if message["role"] == "assistant":
            escaped["content"] = self._escape_answer(message["content"])
        return escaped

    def _escape_answer(self, text: str) -> str:
        """Escape an earlier answer, but for the tags of its reasoning.

        A template that takes tags out joins what is around them. Where that would make a special token, the
        tags are escaped, too.
        """
        pieces = [self._escape(piece) for piece in _REASONING_TAG.split(text)]
        joined = "".join(pieces)
        if self._escape(joined) != joined:
            return str(self._escape(text))
        tags = [*_REASONING_TAG.findall(text), ""]
        return "".join(f"{piece}{tag}" for piece, tag in zip(pieces, tags, strict=True))

    def _escape(self, value: Any) -> Any:
        """Put a separator after the first character of each special token in the texts of ``value``."""
        if isinstance(value, str):
            return self._special_token.sub(self._split_special_token, value)
        if isinstance(value, Mapping):
            return {self._escape(key): self._escape(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._escape(item) for item in value]
        return value

    def _split_special_token(self, match: re.Match[str]) -> str:
        token = match[0]
        # Some vocabularies have such tokens for runs of spaces and line feeds, which are no markup.
        return token if token.isspace() else f"{token[:1]}{self._separator}{token[1:]}"

    def _spelled_tokens(self) -> list[bytes]:
        """Return the texts of all tokens as the tokenizer spells them, by id."""
        ids: dict[bytes, int] = self._tokenizer.get_vocab()
        texts = [b""] * (max(ids.values()) + 1)
        for token, id in ids.items():
            texts[id] = token
        return texts


@contextmanager
def _loading_errors(directory: ModelDirectory) -> Iterator[None]:
    """Raise what a damaged tokenizer causes as ModelFormatError: errors in C++ arrive as many types."""
    try:
        yield
    except AgentRTError:
        raise
    except Exception as error:
        raise ModelFormatError(
            f"the tokenizer in {directory.path} cannot be loaded ({openvino_message(error)}) "
            f"Convert it again: convert_tokenizer NAME --with-detokenizer -o {directory.path}"
        ) from error


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield ``texts`` in lists that one call tokenizes.

    A call takes a third of a millisecond whatever its texts, and its result has a row for each text, as long
    as that of the longest one.
    """
    batch: list[str] = []
    longest = 0
    for text in texts:
        longest = max(longest, len(text))
        if batch and (len(batch) + 1) * longest > _BATCH_CHARACTERS:
            yield batch
            batch, longest = [], len(text)
        batch.append(text)
    yield batch
