"""Stage 2, seam 2: completions of prompts, and how probable true continuations are."""

from propme.generation.backends import BACKENDS, open_generator, require_backend, require_device
from propme.generation.completing import complete
from propme.generation.extraction import (
    agreement,
    agreement_table,
    extraction_table,
    n_p_curve,
)
from propme.generation.openai import OpenAIGenerator
from propme.generation.protocol import Generator
from propme.generation.recorded import RecordedGenerator, as_written
from propme.generation.transformers import TransformersGenerator
from propme.generation.writer import open_writer

__all__ = [
    "BACKENDS",
    "Generator",
    "OpenAIGenerator",
    "RecordedGenerator",
    "TransformersGenerator",
    "agreement",
    "agreement_table",
    "as_written",
    "complete",
    "extraction_table",
    "n_p_curve",
    "open_generator",
    "open_writer",
    "require_backend",
    "require_device",
]
