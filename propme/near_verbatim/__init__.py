"""How nearly two texts agree: near-verbatim recall of a generation in a document window.

The blocks of words that two texts share are found longest first, neighbours with a small gap
between them are merged, what is still short is dropped, and the recall is the share of the
generation's words that lie in what remains.

Sources
-------
Ahmed, Cooper, Koyejo and Liang 2026, "Extracting books from production language models",
arXiv 2601.02671, whose values for whole books are fixed (l1 20, l2 100, g1 2, a1 1, g2 10, a2 3);
Barmina, Schneider-Kamp and Galke Poech 2026, arXiv 2606.06286 (the PropMe paper), which scales
them with the length of the generation. The blocks are those of Ratcliff and Obershelp, as in
`difflib` with `autojunk=False`.

Rules of this package
---------------------
The generation is the reference, the document window is the candidate; n is the number of words
of the reference. Positions count words of `normalize_words`, never characters, and all spans are
half-open. Nothing here is approximate: a pair is measured exactly or refused.
"""

from propme.near_verbatim.matching import AlignmentCostError, Block, matching_blocks
from propme.near_verbatim.passages import Reference, alignment, recall
from propme.near_verbatim.thresholds import Thresholds
from propme.near_verbatim.words import normalize_words

__all__ = [
    "AlignmentCostError",
    "Block",
    "Reference",
    "Thresholds",
    "alignment",
    "matching_blocks",
    "normalize_words",
    "recall",
]
