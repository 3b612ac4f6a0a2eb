"""Step 2: keep the rare spans, those whose words the corpus uses least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from propme.index.protocol import Index

#: Of a generation of ``L`` tokens so many hundredths of ``L`` spans are kept.
RAREST_PERCENT = 5


class UnigramModel:
    """Log-probability of tokens by their frequency in the corpus, separators left out."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def log_probabilities(
        self, ids: Sequence[int], spans: Sequence[tuple[int, int]]
    ) -> list[float]:
        """Sum of the logs of ``ids[start:stop]``, for each span.

        A product of frequencies would underflow to 0 at about 80 tokens.
        """
        if not spans:
            return []
        counts = self._index.token_counts(ids).astype(np.float64)
        with np.errstate(divide="ignore"):
            logs = np.append(np.log(counts / self._index.n_tokens), 0.0)
        sums: list[float] = np.add.reduceat(logs, np.ravel(spans))[::2].tolist()
        return sums


def number_kept(n_tokens: int, percent: int = RAREST_PERCENT) -> int:
    """``K = max(1, ceil(L * percent / 100))`` for ``L`` tokens, in whole numbers; ``L / 20`` at 5.

    The last of them can be as common as any span: K is a number, not a bound on frequency.
    """
    return max(1, (percent * n_tokens + 99) // 100)


def rarest(
    spans: Sequence[tuple[int, int]],
    log_probabilities: Sequence[float],
    n_tokens: int,
    percent: int = RAREST_PERCENT,
) -> set[int]:
    """Numbers of the ``K`` spans with the lowest log-probability; ties: longer, then leftmost."""
    # Rounded: the last bits of a sum hang on the order of its terms, and must not decide a tie.
    order = sorted(
        range(len(spans)),
        key=lambda i: (round(log_probabilities[i], 9), spans[i][0] - spans[i][1], spans[i][0]),
    )
    return set(order[: number_kept(n_tokens, percent)])
