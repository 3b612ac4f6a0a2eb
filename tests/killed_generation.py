"""Complete prompts with the model of a folder, for a test that kills this process.

python killed_generation.py MODEL JOURNAL SAMPLES
"""

import sys
from pathlib import Path

from propme.generation import TransformersGenerator, complete
from propme.records import Prompt, decodings

TEXT = "and the LORD said unto Moses go in to Pharaoh of Egypt that he may let them"
PROMPTS = [
    Prompt(f"generic/{n}", "generic", "propensity", TEXT[n % 9 : n % 9 + 1 + 7 * (n % 7)])
    for n in range(40)
]


def generate(model: str, journal: Path | None, samples: int):
    """A greedy and so many sampled completions of each, in batches of 8."""
    generator = TransformersGenerator(model, device="cpu", dtype="float32", batch_size=8)
    print("loaded", flush=True)
    return complete(generator, PROMPTS, decodings(True, samples, 1.0, 0.95, 60), 0, journal)


if __name__ == "__main__":
    generate(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
