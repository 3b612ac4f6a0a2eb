"""Stage 1: the prompts of each setting, and what the corpus holds of them."""

from propme.prompts.audit import audit, choose
from propme.prompts.prefix import heldout_prompts, prefix_prompts
from propme.prompts.requests import read_requests, shipped_sets

__all__ = [
    "audit",
    "choose",
    "heldout_prompts",
    "prefix_prompts",
    "read_requests",
    "shipped_sets",
]
