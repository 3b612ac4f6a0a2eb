"""Parameters of a run: what the notebooks declare, and what concerns a run as a whole.

A notebook's parameters cell declares what the notebook uses. What no notebook can heed, because it
is about all of them together, is declared here, in the same terms, and handed to none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from propme import parameters
from propme.errors import ParameterError
from propme.parameters import Parameter
from propme.records import decodings
from propme.run import STAGES, notebook_path, portable

RUN_WIDE = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "time_limit",
            "float",
            0.0,
            "longest that a run may take, hours; what is finished is kept; 0: no limit",
        ),
    )
}

#: Keys of a file that are no parameters: the file it builds on, and the runs it asks for.
BASE, SWEEP = "base", "sweep"

#: What only a file of a comparison has.
COMPARED = "runs"

#: Bounds of parameters that no record below has.
_LEAST = {
    "n_prompts": 1,
    "n_prefix": 1,
    "n_prompt_free": 0,
    "n_mismatched": 0,
    "n_human": 0,
    "longest_allowed": 0,
    "batch_size": 1,
    "concurrency": 1,
    "patience": 0,
    "bootstrap_rounds": 1,
    "workers": 1,
    "n_varied": 0,
    "request_rate": 0,
    "requests_at_once": 1,
    "most_read": 1,
    "seed": 0,
    "time_limit": 0,
}


def declared() -> dict[str, Parameter]:
    """All parameters of a run by name: those of the notebooks, in order, then those of the run."""
    return parameters.declared_in_all(notebook_path(stage) for stage in STAGES) | RUN_WIDE


def own_parameters(stage: str, effective: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook's share of the parameters."""
    return {name: effective[name] for name in parameters.declared_in(notebook_path(stage))}


def read_file(
    file: Path, known: Mapping[str, Parameter], above: Sequence[Path] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Parameters of a file on top of those of its ``base``, and what its ``sweep`` lists.

    Parameters
    ----------
    file : Path
    known : mapping
        Declared parameters.
    above : sequence of Path
        Files that build on this one.

    Raises
    ------
    ParameterError
        A name is unknown, a value does not fit, files build on each other in a circle, or the file
        is one of a comparison.
    InputError
        A file cannot be read.
    """
    content = parameters.read_file(file)
    if COMPARED in content:
        raise ParameterError(f"{file}: this compares runs: propme compare {file}")
    base, sweep = content.pop(BASE, None), content.pop(SWEEP, None)
    try:
        own = parameters.check(content, known)
        listed = None if sweep is None else [_variant(entry, known) for entry in _list(sweep)]
    except ParameterError as error:
        raise ParameterError(f"{file}: {error}") from error
    if base is None:
        return own, listed or []
    if not isinstance(base, str) or file.resolve() in above:
        raise ParameterError(f"{file}: base {base!r} must be another file of parameters")
    given, inherited = read_file(file.parent / base, known, [*above, file.resolve()])
    return given | own, inherited if listed is None else listed


def _list(sweep: Any) -> list[Any]:
    if not isinstance(sweep, list) or not sweep:
        raise ParameterError(
            "sweep is a list of runs, each a mapping of the parameters that differ, as in"
            " '- {temperature: 0.7}'"
        )
    return sweep


def _variant(entry: Any, known: Mapping[str, Parameter]) -> dict[str, Any]:
    if not isinstance(entry, dict) or not entry or not all(isinstance(n, str) for n in entry):
        raise ParameterError(f"sweep: {entry!r} is no mapping of parameters, as {{seed: 1}}")
    name = {"name": str(entry["name"])} if "name" in entry else {}
    return name | parameters.check({n: v for n, v in entry.items() if n != "name"}, known)


def effective_parameters(
    files: Sequence[str | Path], overrides: Mapping[str, Any], output: str | None
) -> dict[str, Any]:
    """All parameters of a run: the defaults, then the files, a later one wins, then the overrides.

    Raises
    ------
    ParameterError
        A name is unknown, or a value cannot be what was meant.
    """
    known = declared()
    given: dict[str, Any] = {}
    for file in map(Path, files):
        given |= read_file(file, known)[0]
    given |= parameters.check(overrides, known)
    if output is not None:
        given |= parameters.check({"output": output}, known)
    return complete(given, known)


def complete(given: Mapping[str, Any], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Given parameters and the defaults of the others, refused if they cannot be run together."""
    effective = {name: given.get(name, p.default) for name, p in known.items()}
    _check_values(effective)
    return {n: portable(v) if isinstance(v, str) else v for n, v in effective.items()}


def _check_values(effective: Mapping[str, Any]) -> None:
    """Refuse now what a notebook would refuse after hours of others."""
    from propme.generation import require_backend, require_device
    from propme.index import RemoteSettings, is_remote, require_engine
    from propme.index.remote.settings import split_address
    from propme.metrics import require_propensity_metrics
    from propme.prompts import PrefixCut, require_language
    from propme.simpletrace import TraceSettings, Workers

    if not effective["output"].isprintable():
        raise ParameterError(f"output {effective['output']!r} holds signs that are not to be seen")
    for name, least in _LEAST.items():
        if effective[name] < least:
            raise ParameterError(f"{name} must be at least {least}, not {effective[name]}")
    sampling = ("greedy", "samples", "temperature", "top_p", "max_new_tokens", "top_k")
    decodings(*(effective[name] for name in sampling))
    TraceSettings(*(effective[name] for name in ("docs_per_span", "merging", "seed", "mode")))
    Workers(effective["workers"], effective["tracing_backend"])
    require_propensity_metrics(effective["propensity_metrics"])
    require_engine(effective["engine"])
    asking = ("request_rate", "requests_at_once", "most_read")
    RemoteSettings("", *(effective[name] for name in asking))
    if is_remote(effective["index"]):
        split_address(effective["index"])  # before credentials in it are written anywhere
    require_backend(effective["backend"])
    require_device(effective["device"], effective["dtype"])
    PrefixCut(effective["prefix_tokens"], effective["prefix_position"])
    require_language(effective["prompt_language"])
    if effective["strata"] and not effective["stratify_by"]:
        raise ParameterError("strata are given, and not of which metadata key: set stratify_by")
