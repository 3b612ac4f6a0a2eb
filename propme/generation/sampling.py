"""How the next token is chosen, and how probable a given one is under the same choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from propme.records import Decoding

if TYPE_CHECKING:
    import torch

#: Far above what the order of summation changes in the mass of a nucleus.
_SLACK = 1e-3


def warpers(decoding: Decoding) -> list[Any]:
    """What turns the logits of a model into those of a sampled decoding, in transformers' order."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    chosen: list[Any] = [TemperatureLogitsWarper(float(decoding.temperature))]
    if decoding.top_k:
        chosen.append(TopKLogitsWarper(decoding.top_k))
    if decoding.top_p < 1:
        chosen.append(TopPLogitsWarper(float(decoding.top_p)))
    return chosen


def processors(decoding: Decoding, seeds: Sequence[int], prompt_length: int) -> list[Any]:
    """What turns logits into a choice: for greedy decoding nothing, else `SampleBySeed` last."""
    if decoding.temperature == 0:
        return []
    uniform = np.stack([np.random.default_rng(s).random(decoding.max_new_tokens) for s in seeds])
    return [*warpers(decoding), SampleBySeed(uniform, prompt_length)]


class SampleBySeed:
    """A logits processor that leaves one token possible: the one drawn by the row's own numbers.

    Parameters
    ----------
    uniform : array, shape (rows, steps)
        Numbers in [0, 1) at which the cumulated distribution of a row is inverted.
    prompt_length : int
        Tokens before the first step.
    """

    def __init__(self, uniform: np.ndarray[Any, Any], prompt_length: int) -> None:
        self._uniform, self._prompt_length = uniform, prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Logits of 0 for the drawn token of each row and of -inf for all others."""
        import torch

        step = input_ids.shape[1] - self._prompt_length
        # Cumulated in float64, for float32 loses rare tokens; MPS has none, so there on the CPU.
        where = torch.device("cpu") if scores.device.type == "mps" else scores.device
        cumulated = scores.to(where).double().softmax(-1).cumsum(-1)
        uniform = torch.from_numpy(self._uniform[:, step : step + 1]).to(where)
        chosen = torch.searchsorted(cumulated, uniform * cumulated[:, -1:], right=True)
        return torch.full_like(scores, float("-inf")).scatter(1, chosen.to(scores.device), 0.0)


class NoNumber:
    """A logits processor that notes rows whose logits are no numbers, and lets the others go on.

    Attributes
    ----------
    rows : tensor of bool, shape (rows,)
        Which rows.
    """

    def __init__(self, n_rows: int, device: torch.device) -> None:
        import torch

        self.rows = torch.zeros(n_rows, dtype=torch.bool, device=device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Logits of 0 where one is NaN in the row."""
        found = scores.isnan().any(-1)
        self.rows = self.rows | found
        return scores.masked_fill(found[:, None], 0.0)


def log_probability(logits: torch.Tensor, ids: torch.Tensor, decoding: Decoding) -> float:
    """Natural log of the probability that a decoding generates given tokens.

    The sum over positions of the log of the next-token probability under temperature, top-k and
    top-p (Hayes et al. 2025, arXiv 2410.19482, section 3). Summed as logs in float64, so that long
    or improbable suffixes do not underflow to 0.

    Parameters
    ----------
    logits : tensor, shape (n, vocabulary)
        Of each position, given all tokens before it.
    ids : tensor, shape (n,)
    decoding : Decoding
        Greedy: 0.0 if each token is the most likely, else ``-inf``.

    Returns
    -------
    float
        In [-inf, 0]. ``-inf`` is exact for top-k and top-p: a token that is cut off cannot occur.
    """
    if decoding.temperature == 0:
        return 0.0 if bool((logits.argmax(-1) == ids).all()) else float("-inf")
    if decoding.top_p < 1 and _surely_cut_off(logits, ids, decoding):
        return float("-inf")
    scores = logits
    for warper in warpers(decoding):
        scores = warper(None, scores)
    scores = (scores.cpu() if scores.device.type == "mps" else scores).double()
    chosen = scores.gather(-1, ids.to(scores.device)[:, None])[:, 0]
    return min(0.0, float((chosen - scores.logsumexp(-1)).sum()))


def _surely_cut_off(logits: torch.Tensor, ids: torch.Tensor, decoding: Decoding) -> bool:
    """Whether some token lies clearly outside its nucleus: likelier ones have more than its mass.

    Tells it of most continuations that are not memorised, without sorting the vocabulary.
    """
    probabilities = (logits / decoding.temperature).softmax(-1)
    own = probabilities.gather(-1, ids[:, None])
    likelier = (probabilities * (probabilities > own)).sum(-1)
    return bool((likelier > decoding.top_p + _SLACK).any())
