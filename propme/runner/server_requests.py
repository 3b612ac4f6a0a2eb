"""How often a run will ask an index behind a server, told without asking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from propme import prompts
from propme.index import is_remote
from propme.run import STAGES, RunFolder, existing
from propme.simpletrace import (
    SPELLINGS_PER_READ,
    IndexAddress,
    TraceSettings,
    lookups_of,
    requests_needed,
    requests_of_a_trace,
    requests_of_documents,
    settings_that_ask,
    some_of,
    texts_of,
)

#: Length of a request that is looked up; few of the shipped ones are longer, index tokens.
_REQUEST_TOKENS = 50


def requests_foreseen(
    stages: Iterable[str], effective: Mapping[str, Any], run: RunFolder
) -> dict[str, int]:
    """Requests that each stage makes of an index behind a server, as a rule at most.

    Parameters
    ----------
    stages : iterable of str
        Those that would run.
    effective : mapping
        Parameters of the run.
    run : RunFolder
        Completions that are there already are looked up among the answers that are kept; of others
        the number and the greatest length decide.

    Returns
    -------
    dict of str to int
        By stage; empty where the index lies on this machine.

    Notes
    -----
    An estimate and no bound: prompts that are refused and replaced, and what is asked again after a
    fault, come to it. Equal questions are counted as often as they come up, though each is asked
    once; so a run whose completions are alike, or whose prompts stand in the corpus, stays far
    below.
    """
    if not is_remote(effective["index"]):
        return {}
    first, generation, tracing, _ = STAGES
    foreseen = {}
    if first in stages:
        foreseen[first] = _of_prompts(effective)
    if tracing in stages:
        made = not {first, generation} & set(stages)
        foreseen[tracing] = _of_texts(effective, run) if made else _of_completions(effective)
    return foreseen


def _of_prompts(effective: Mapping[str, Any]) -> int:
    """For drawing documents, and for looking prompts up."""
    wanted = _numbers_of_prompts(effective)
    most_read = int(effective["most_read"])
    both_ends = 2 * SPELLINGS_PER_READ * most_read
    lengths = dict.fromkeys(wanted, _REQUEST_TOKENS) | {
        "mismatched_prefix": effective["prefix_tokens"],
        "human": effective["max_new_tokens"],
    }
    each = {setting: lookups_of(length) + both_ends for setting, length in lengths.items()}
    each["unconditional"] = 0
    each["minimal_cue"] = SPELLINGS_PER_READ * most_read
    each["prefix"] = 1 + lookups_of(effective["prefix_tokens"]) + most_read
    drawn = prompts.MOST_FOR_CUES if wanted["minimal_cue"] else 0
    drawn += prompts.MOST_FOR_TOPICS if effective["specific_prompts"] == "corpus" else 0
    return drawn + sum(n * each[setting] for setting, n in wanted.items())


def _of_completions(effective: Mapping[str, Any]) -> int:
    """For the trace of completions that are not there yet, each as long as it may be."""
    settings = _trace_settings(effective)
    most_read, length = int(effective["most_read"]), int(effective["max_new_tokens"])
    numbers = _numbers_of_completions(effective)
    varied = sum(min(n, int(effective["n_varied"])) for n in numbers)
    of_variants = sum(
        requests_of_documents(length, other, most_read) for other in settings_that_ask(settings)
    )
    of_one = requests_of_a_trace(length, settings, most_read)
    return sum(numbers) * of_one + varied * of_variants


def _of_texts(effective: Mapping[str, Any], run: RunFolder) -> int:
    """For the trace of completions that are there, by what is kept of earlier answers."""
    settings, most_read = _trace_settings(effective), effective["most_read"]
    address = IndexAddress.recorded(run.index, most_read=most_read)
    generations = run.read("generations")
    estimated = requests_needed(texts_of(generations), address, settings).estimated
    some = some_of(generations, run.read("prompts"), effective["n_varied"], effective["seed"])
    for other in settings_that_ask(settings):
        needed = requests_needed(texts_of(some), address, other)
        of_one = requests_of_documents(effective["max_new_tokens"], other, most_read)
        estimated += (needed.generations - needed.answered) * of_one
    return estimated


def _trace_settings(effective: Mapping[str, Any]) -> TraceSettings:
    return TraceSettings(
        effective["docs_per_span"], effective["merging"], effective["seed"], effective["mode"]
    )


def _numbers_of_completions(effective: Mapping[str, Any]) -> list[int]:
    """Of each setting and decoding."""
    greedy, samples = effective["greedy"], effective["samples"]
    sampled = {"unconditional": effective["n_prompt_free"], "minimal_cue": 1, "human": 0}
    numbers = []
    for setting, n in _numbers_of_prompts(effective).items():
        numbers.append(n if greedy or setting == "human" else 0)
        numbers.append(n * sampled.get(setting, samples) if samples else 0)
    return numbers


def _numbers_of_prompts(effective: Mapping[str, Any]) -> dict[str, int]:
    """Of each setting, as many as are asked for."""
    n = effective["n_prompts"]
    free = effective["n_prompt_free"]
    return {
        "unconditional": min(free, 1),
        "minimal_cue": free,
        "generic": n if effective["generic_prompts"] else 0,
        "specific": n if effective["specific_prompts"] else 0,
        "chat": n if effective["chat_prompts"] else 0,
        "file": len(_own(effective)),
        "prefix": effective["n_prefix"] * max(1, len(effective["strata"])),
        "mismatched_prefix": effective["n_mismatched"] if effective["heldout"] else 0,
        "human": effective["n_human"] if effective["human"] else 0,
    }


def _own(effective: Mapping[str, Any]) -> list[Any]:
    file = existing(effective["prompt_file"])
    return prompts.read_requests("file", file, 0, effective["prompt_field"]) if file else []
