"""Stage 1: the prompts of each setting, and what the corpus holds of them."""

from propme.prompts.audit import audit, choose, fit, require_contrast
from propme.prompts.held_out import human_prompts, sentence_prompts
from propme.prompts.prefix import (
    TARGET_TOKENS,
    PrefixCut,
    mismatched_prefix_prompts,
    prefix_prompts,
    prefix_prompts_from,
)
from propme.prompts.prompt_free import (
    MOST_FOR_CUES,
    minimal_cue_prompts,
    unconditional_prompts,
)
from propme.prompts.requests import as_messages, read_requests, shipped_sets
from propme.prompts.specific import (
    MADE,
    requests_about,
    require_language,
    specific_set,
    written_requests,
)
from propme.prompts.summary import lengths_by_setting, overlap_by_setting
from propme.prompts.topics import MOST_FOR_TOPICS, find_topics

__all__ = [
    "MADE",
    "MOST_FOR_CUES",
    "MOST_FOR_TOPICS",
    "TARGET_TOKENS",
    "PrefixCut",
    "as_messages",
    "audit",
    "choose",
    "find_topics",
    "fit",
    "human_prompts",
    "lengths_by_setting",
    "minimal_cue_prompts",
    "mismatched_prefix_prompts",
    "overlap_by_setting",
    "prefix_prompts",
    "prefix_prompts_from",
    "read_requests",
    "requests_about",
    "require_contrast",
    "require_language",
    "sentence_prompts",
    "shipped_sets",
    "specific_set",
    "unconditional_prompts",
    "written_requests",
]
