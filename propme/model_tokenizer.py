"""The tokenizer of the model that is asked, and what it makes of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propme.errors import InputError, TooLongError
from propme.records import PROMPT_FREE, Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

#: Stands for a message in a chat template; no text holds these private signs.
_PLACE = "\ue000message\ue001"


def load_arguments(model: str) -> tuple[str, dict[str, Any]]:
    """What transformers is told of where a model lies: folder or name, and a GGUF file in it.

    Raises
    ------
    InputError
        It is a GGUF file, and what reads those is not installed.
    """
    path = Path(model)
    if path.suffix.lower() != ".gguf":
        return model, {}
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"to read a GGUF file {' and '.join(missing)} must be installed:"
            " pip install 'propme[gguf]'",
            model,
        )
    if not path.is_file():
        raise InputError("no such file; a GGUF file on the hub is downloaded first", model)
    return str(path.parent), {"gguf_file": path.name}


class ModelTokenizer:
    """Prompts to the tokens that the model is given.

    Parameters
    ----------
    backend : PreTrainedTokenizerBase
        The tokenizer as transformers loaded it.
    context : int, optional
        Most tokens that the model can hold; unknown where left out.
    name : str
        The model, for messages.
    ends : frozenset of int
        Tokens that end a text, as the model's configuration has them; the tokenizer's own is added.

    Notes
    -----
    What looks like a special token in a prompt is text, as it is in the corpus.
    """

    def __init__(
        self,
        backend: Any,
        context: int | None = None,
        name: str = "",
        ends: frozenset[int] = frozenset(),
    ) -> None:
        self._backend, self.context, self._name = backend, context, name
        own = backend.eos_token_id
        self.ends = ends if own is None else ends | {own}

    @classmethod
    def of(cls, backend: Any, config: Any, name: str) -> ModelTokenizer:
        """Of a tokenizer and a model's configuration, as transformers loaded both."""
        declared = getattr(config, "eos_token_id", None)  # one, several or none
        ends = declared if isinstance(declared, list) else [declared]
        context = getattr(config, "max_position_embeddings", None)
        return cls(backend, context, name, frozenset(end for end in ends if end is not None))

    @classmethod
    def load(cls, model: str, trust_remote_code: bool = False) -> ModelTokenizer:
        """Load from a folder written by ``save_pretrained``, a GGUF file, or a name on the hub.

        Raises
        ------
        InputError
            There is none.
        """
        from transformers import AutoConfig, AutoTokenizer

        where, arguments = load_arguments(model)
        arguments["trust_remote_code"] = trust_remote_code
        try:
            backend = AutoTokenizer.from_pretrained(where, **arguments)
            config = AutoConfig.from_pretrained(where, **arguments)
        except Exception as error:  # the library raises many kinds
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"transformers cannot load the model's tokenizer from here: {reason}", model
            ) from error
        return cls.of(backend, config, model)

    @classmethod
    def load_if_named(cls, model: str, trust_remote_code: bool = False) -> ModelTokenizer | None:
        """`load`, or none where no model is named, for a server or a file has the completions."""
        return cls.load(model, trust_remote_code) if model else None

    @property
    def fast(self) -> Backend:
        """The tokenizer itself, without what transformers puts around it.

        Raises
        ------
        InputError
            It is written in Python, and there is none.
        """
        if not self._backend.is_fast:
            raise InputError("no fast tokenizer; give a folder with a tokenizer.json", self._name)
        fast: Backend = self._backend.backend_tokenizer
        return fast

    @property
    def start_token(self) -> int | None:
        """The token that every document begins with; not every tokenizer has one."""
        start: int | None = self._backend.bos_token_id
        return start

    @property
    def start_text(self) -> str:
        """How the start token is written; empty where there is none."""
        return self._backend.bos_token or ""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text alone, without any special token."""
        return list(self._backend.encode(text, add_special_tokens=False, split_special_tokens=True))

    def count(self, text: str) -> int:
        """Length of a text in the model's tokens."""
        return len(self.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones and all spaces included."""
        return str(
            self._backend.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """What the model is given for a prompt: at most one start token, then its text.

        A prompt of a setting that asks for nothing begins with the end token where the tokenizer
        has no start token: it is what stands between documents then. A ``chat`` prompt is a user's
        message in the model's own chat template, which brings its own special tokens.

        Raises
        ------
        InputError
            There would be no token at all, or the model has no chat template.
        """
        if prompt.chat:
            return self._chat_ids(prompt)
        start = self.start_token
        if start is None and prompt.setting in PROMPT_FREE:
            start = self._backend.eos_token_id
        ids = ([] if start is None else [start]) + self.encode(prompt.text)
        if not ids:
            raise InputError(
                "the prompt is empty and the model has no start token", prompt.prompt_id
            )
        return ids

    def require_room(self, prompt: Prompt, max_new_tokens: int) -> list[int]:
        """`prompt_ids`, if they and the completion fit into the model's context.

        Raises
        ------
        TooLongError
            They do not.
        """
        ids = self.prompt_ids(prompt)
        if self.context is not None and len(ids) + max_new_tokens > self.context:
            raise TooLongError(
                f"{len(ids)} tokens and {max_new_tokens} new ones do not fit into the model's"
                f" context of {self.context}; lower max_new_tokens or shorten the prompt",
                prompt.prompt_id,
            )
        return ids

    def _chat_ids(self, prompt: Prompt) -> list[int]:
        added = self._backend.added_tokens_decoder.values()
        if not any(token.special and token.content in prompt.text for token in added):
            return self._with_specials(self._in_template(prompt.text))
        # Text that looks like a special token must not become one, so it is encoded by itself.
        before, _, after = self._in_template(_PLACE).partition(_PLACE)
        return self._with_specials(before) + self.encode(prompt.text) + self._with_specials(after)

    def _with_specials(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False))

    def _in_template(self, message: str) -> str:
        if not self._backend.chat_template:
            raise InputError(
                "the model has no chat template; leave chat_prompts empty, or name an instruct"
                " model",
                self._name,
            )
        rendered: str = self._backend.apply_chat_template(
            [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False
        )
        return rendered
