"""Stage 2, seam 2: completions of prompts."""

from propme.generation.protocol import Generator
from propme.generation.recorded import as_written
from propme.generation.transformers import TransformersGenerator
from propme.generation.writer import open_writer

__all__ = ["Generator", "TransformersGenerator", "as_written", "open_writer"]
