"""Stage 2, seam 2: completions of prompts."""

from propme.generation.protocol import Generator
from propme.generation.transformers import TransformersGenerator

__all__ = ["Generator", "TransformersGenerator"]
