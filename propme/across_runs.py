"""Across runs: models, checkpoints, corpora or decodings side by side, from their stored tables.

Neither a model nor an index is opened. Two runs are compared setting by setting; where both were
asked the same prompts the difference is paired, which cancels out what makes a prompt easy, and
where they were not it is unpaired and says why.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propme import groups, measurements, metric_tables, tables
from propme.comparison import Difference, holm, paired_difference, unpaired_difference
from propme.errors import MetricError, ParameterError, RunError, TableError
from propme.metrics import METRICS, Metric, metric_named
from propme.records import in_order
from propme.run_record import read_record
from propme.uncertainty import ROUNDS, Floats, percentile_interval, ratios, resampled_sums

#: Verbatim metrics, and near-verbatim ones, whose decline is set against one another.
VERBATIM, NEAR_VERBATIM = ("FMR", "ALS"), ("NVR", "NVR_max")

#: Rounds of a permutation test for each test of a table: with fewer, the smallest p-value there can
#: be, 1 / (1 + rounds), would not survive Holm's correction however large the difference is.
_ROUNDS_PER_TEST = 40

#: Completions that share no prompt: each is a draw of its own.
_NO_PROMPT = "unconditional"

#: Parameters of tracing that decide what is found.
_TRACING = ("mode", "merging", "docs_per_span")

#: What notebooks 1 to 3 have written, in the order of `propme.measurements.measured_generations`.
_READ = ("prompts", "generations", "traces", "spans", "matches")

_SAMPLING = ("greedy", "samples", "temperature", "top_p", "top_k", "max_new_tokens")


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run as the comparison sees it.

    Attributes
    ----------
    name : str
        Unique among the runs of the comparison.
    path : Path
        Its folder.
    record : dict
        Its ``run.json``.
    prompts : DataFrame
        Its table ``prompts``.
    frame : DataFrame
        That of `propme.measurements.measured_generations`.
    """

    name: str
    path: Path
    record: Mapping[str, Any]
    prompts: pd.DataFrame
    frame: pd.DataFrame

    def input(self, name: str) -> dict[str, str]:
        """Path and hash of an input; empty where it is not recorded."""
        found: dict[str, str] = self.record.get("inputs", {}).get(name, {})
        return {"path": "", "sha256": ""} | found

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the index's tokenizer; empty where it was not recorded."""
        return self.input("tokenizer")["sha256"]

    @cached_property
    def texts(self) -> dict[str, str]:
        """Text of each prompt by id."""
        return dict(zip(self.prompts["prompt_id"], self.prompts["text"], strict=True))

    def parameters(self, names: Iterable[str]) -> str:
        """Some parameters of the run, written out."""
        given = self.record.get("parameters", {})
        return ", ".join(f"{name} {given.get(name, 'unknown')}" for name in names)


def run_names(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: its last part, or as many parts from the end as tell it apart.

    Raises
    ------
    ParameterError
        There are fewer than two folders, or one is given twice.
    """
    if len(folders) < 2:
        raise ParameterError(
            f"a comparison is of two runs or more, not of {len(folders)}; name their folders"
        )
    # By whatever path: through a link, or there and back.
    twice = [str(f) for f, n in Counter(each.resolve() for each in folders).items() if n > 1]
    if twice:
        raise ParameterError(f"run {twice[0]!r} is given twice")
    names = [folder.name for folder in folders]
    length = 1
    while len(set(names)) < len(names):
        length += 1
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else "/".join(folder.parts[-length:])
            for name, folder in zip(names, folders, strict=True)
        ]
    return names


def read_runs(folders: Sequence[Path]) -> list[ComparedRun]:
    """Read what notebooks 1 to 3 of each run have written.

    Raises
    ------
    ParameterError
        As `run_names`.
    RunError
        A folder holds no run.
    TableError
        A table is missing, or is not what it is declared to be.
    """
    names = require_runs(folders)
    return [_read_run(name, folder) for name, folder in zip(names, folders, strict=True)]


def require_runs(folders: Sequence[Path]) -> list[str]:
    """Names of the runs, if there is a finished run in each folder; no table is read.

    Raises
    ------
    ParameterError
        As `run_names`.
    RunError
        A folder holds no run.
    TableError
        A run has not been finished.
    """
    names = run_names(folders)
    for folder in folders:
        _require_run(folder)
    return names


def _require_run(folder: Path) -> None:
    if not (folder / "run.json").is_file():
        raise RunError(
            f"{folder}: no run (it has no run.json); give folders that 'propme run' made"
        )
    if "compared" in read_record(folder):
        raise RunError(f"{folder}: a comparison, and no run; give the runs that it compares")
    for name in _READ:
        if not (folder / "tables" / f"{name}.parquet").is_file():
            raise TableError(f"{folder}: the run has no table {name!r}; finish it first")


def _read_run(name: str, folder: Path) -> ComparedRun:
    read = partial(tables.read, folder=folder / "tables")
    prompts, generations, traces, spans, matches = map(read, _READ)
    return ComparedRun(
        name,
        folder,
        read_record(folder),
        prompts,
        measurements.measured_generations(prompts, generations, traces, spans, matches),
    )


def compared_runs(runs: Iterable[ComparedRun]) -> pd.DataFrame:
    """What each run is of: the table ``compared_runs``."""
    return _table(
        "compared_runs",
        [
            {
                "run": run.name,
                "path": str(run.path),
                "model": run.input("model")["path"],
                "model_sha256": run.input("model")["sha256"],
                "corpus": run.input("corpus")["path"],
                "corpus_sha256": run.input("corpus")["sha256"],
                "index_sha256": run.input("index")["sha256"],
                "tokenizer": run.tokenizer,
                "tracing": run.parameters(_TRACING),
                "decoding": run.parameters(_SAMPLING),
                "settings": ", ".join(in_order(run.frame["setting"])),
                "n_generations": len(run.frame),
            }
            for run in runs
        ],
    )


_CONSEQUENCES = {
    "corpus": "A difference between runs of different corpora is one of the corpora too, and of"
    " their prompts where these come from the corpus.",
    "tokenizer": "Tokens of one are not tokens of the other: metrics that count tokens are not"
    " compared, and what is found hangs on the tokens too. Trace all in indexes of one tokenizer.",
    "tracing": "The metrics differ by how was traced, whatever the models do. Trace all alike"
    " before a difference is read as one of the models.",
    "decoding": "A difference is one of the decodings too.",
    "settings": "A setting that a run lacks is not compared with it.",
}


def caveats(compared: pd.DataFrame) -> pd.DataFrame:
    """What differs between the runs beside their models: the table ``caveats``; empty: nothing.

    Parameters
    ----------
    compared : DataFrame
        The table ``compared_runs``.
    """
    keys = {about: compared[about] for about in ("tracing", "decoding", "settings")}
    keys["corpus"] = compared["corpus_sha256"].where(
        compared["corpus_sha256"] != "", compared["corpus"]
    )
    keys["tokenizer"] = _tokenizer_keys(compared)
    ends = compared["corpus"].map(lambda path: "/".join(Path(path).parts[-2:]))
    shown = {"corpus": ends, "tokenizer": keys["tokenizer"].str[:12]}
    rows = []
    for about, consequence in _CONSEQUENCES.items():
        if keys[about].nunique() > 1:
            groups = compared.groupby(keys[about], sort=False)
            texts = [
                f"{', '.join(group['run'])}: {shown.get(about, keys[about])[group.index[0]]}"
                for _, group in groups
            ]
            rows.append({"about": about, "runs": "; ".join(texts), "consequence": consequence})
    return _table("caveats", rows)


def _tokenizer_keys(compared: pd.DataFrame) -> pd.Series[str]:
    """What tells tokenizers apart: their fingerprint, or that of the index if it is gone."""
    unknown = "unknown, of index " + compared["index_sha256"].str[:12]
    one_index = compared["index_sha256"].nunique() == 1
    return compared["tokenizer"].where(compared["tokenizer"] != "", "" if one_index else unknown)


def counts_tokens(metric: str) -> bool:
    """Whether a metric compares only within one tokenizer: lengths of passages, and shares of them.

    Extraction is of so many tokens of a true continuation, and FMR50 of completions so long.
    """
    return metric in ("ALS", "extraction") or metric.startswith("R") or metric[3:].isdigit()


def run_metrics(
    runs: Iterable[ComparedRun], names: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Each metric of each run: the table ``run_metrics``, of all generations."""
    parts = [
        metric_tables.metric_table(run.frame, names, seed, rounds, subsets=("all",)).assign(
            run=run.name
        )
        for run in runs
    ]
    return pd.concat(parts, ignore_index=True)[list(tables.TABLES["run_metrics"].columns)]


def run_propensity(
    runs: Iterable[ComparedRun], names: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Propensity scores of each run: the table ``run_propensity``, of all generations.

    A run without a capability setting has none. Those of controls are left out.
    """
    parts = [_table("run_propensity", [])]
    for run in runs:
        if (run.frame["kind"] == "capability").any():
            scores = metric_tables.propensity_table(run.frame, names, seed, rounds)
            told = (scores["subset"] == "all") & (scores["kind"] == "propensity")
            parts.append(scores[told].assign(run=run.name))
    return pd.concat(parts[1:] or parts, ignore_index=True)[list(parts[0].columns)]


@dataclass(frozen=True)
class Course:
    """A course of training: its runs in order, and whether it is the control of the others."""

    name: str
    runs: tuple[str, ...]
    is_control: bool = False


def courses(trajectories: Sequence[str], control: str, names: Sequence[str]) -> list[Course]:
    """Courses of training as parameters give them.

    Parameters
    ----------
    trajectories : sequence of str
        Each ``NAME: RUN, RUN, ...``, runs in the order of training.
    control : str
        Name of the one that is the control; empty: none.
    names : sequence of str
        Names of the runs.

    Raises
    ------
    ParameterError
        A text is no such course, a run or the control is unknown, or a name stands twice.
    """
    found = []
    for text in trajectories:
        name, _, rest = str(text).partition(":")
        stages = [part.strip() for part in rest.split(",")]
        if len(stages) < 2:
            raise ParameterError(
                f"trajectory {text!r} is not 'NAME: RUN, RUN, ...', of two runs or more"
            )
        for stage in stages:
            _known(stage, names, "run")
        found.append(Course(name.strip(), tuple(stages), name.strip() == control))
    given = [course.name for course in found]
    if len(set(given)) < len(given):
        raise ParameterError(f"two trajectories have the same name, of {given}")
    if control:
        _known(control, given, "trajectory")
    return found


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
        raise ParameterError(f"{what} {name!r} is unknown; {hint}")
    return name


def trajectory_table(given: Iterable[Course]) -> pd.DataFrame:
    """Which run is which stage: the table ``trajectories``."""
    return _table(
        "trajectories",
        [
            {"trajectory": c.name, "stage": stage, "run": run, "control": c.is_control}
            for c in given
            for stage, run in enumerate(c.runs)
        ],
    )


def courses_of(trajectories: pd.DataFrame) -> list[Course]:
    """Courses of training out of the table ``trajectories``."""
    ordered = trajectories.sort_values("stage", kind="stable")
    return [
        Course(str(name), tuple(rows["run"]), bool(rows["control"].iloc[0]))
        for name, rows in ordered.groupby("trajectory", sort=False)
    ]


def pairs_of(
    names: Sequence[str], pairs: Sequence[str] = (), given: Sequence[Course] = ()
) -> list[tuple[str, str]]:
    """Pairs of runs to compare, the second to be subtracted from the first; each once.

    Those of ``pairs``, each ``A, B``; then the last stage of each course with its first and, where
    one is the control, the last stage that both have. With neither, each run with the first.
    Stages between are drawn and not tested: each test makes all others of the table weaker.

    Raises
    ------
    ParameterError
        A text is no pair, or names an unknown run.
    """
    found = [_pair(str(text), names) for text in pairs]
    found += [(course.runs[-1], course.runs[0]) for course in given]
    found += [pair for pair, _ in beside_controls(given)]
    found = found or [(name, names[0]) for name in names[1:]]
    return list(dict.fromkeys(pair for pair in found if pair[0] != pair[1]))


def beside_controls(given: Sequence[Course]) -> list[tuple[tuple[str, str], Course]]:
    """Each course's last stage that a control has too, with the control's run of that stage."""
    return [
        (list(zip(course.runs, control.runs, strict=False))[-1], course)
        for control in given
        for course in given
        if control.is_control and not course.is_control
    ]


def stage_pairs(pairs: Sequence[tuple[str, str]], given: Sequence[Course]) -> list[tuple[str, str]]:
    """Those pairs, and every stage of each course with its first; each once."""
    stages = [(run, course.runs[0]) for course in given for run in course.runs[1:]]
    return list(dict.fromkeys([*pairs, *stages]))


def _pair(text: str, names: Sequence[str]) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or parts[0] == parts[1]:
        raise ParameterError(f"pair {text!r} is not 'RUN, RUN', of two runs")
    return _known(parts[0], names, "run"), _known(parts[1], names, "run")


@dataclass(frozen=True, eq=False)
class _Both:
    """The generations of two runs under one setting and decoding."""

    a: ComparedRun
    b: ComparedRun
    setting: str
    kind: str
    decoding: str
    of_a: pd.DataFrame
    of_b: pd.DataFrame

    @property
    def labels(self) -> dict[str, str]:
        return {
            "run_a": self.a.name,
            "run_b": self.b.name,
            "setting": self.setting,
            "kind": self.kind,
            "decoding": self.decoding,
        }

    @cached_property
    def why_unpaired(self) -> str:
        """Why the two cannot be paired; empty: both were asked the same, as often."""
        if self.setting == _NO_PROMPT:
            return "nothing is asked"
        times_a, times_b = (Counter(part["prompt_id"]) for part in (self.of_a, self.of_b))
        both = times_a.keys() & times_b.keys()
        same = sum(self.a.texts[prompt] == self.b.texts[prompt] for prompt in both)
        if same < max(len(times_a), len(times_b)):
            return f"other prompts: {same} of {len(times_a)} and {len(times_b)} are the same"
        return "" if times_a == times_b else "other numbers of completions of a prompt"


def _in_both(
    runs: Sequence[ComparedRun], pairs: Iterable[tuple[str, str]], tested: Iterable[str]
) -> Iterator[_Both]:
    by_name = {run.name: run for run in runs}
    kinds = set(tested)
    for a, b in pairs:
        keys = ["setting", "kind", "decoding"]
        of_a, of_b = (
            {tuple(map(str, key)): part for key, part in by_name[name].frame.groupby(keys)}
            for name in (a, b)
        )
        shared = [key for key in of_a if key in of_b and key[1] in kinds]
        order = in_order(key[0] for key in shared)
        for key in sorted(shared, key=lambda key: (order.index(key[0]), key[2])):
            setting, kind, decoding = key
            yield _Both(by_name[a], by_name[b], setting, kind, decoding, of_a[key], of_b[key])


#: Kinds of settings whose differences are tested; controls are shown beside them, as a floor.
_TESTED = ("propensity", "capability")


def differences(
    runs: Sequence[ComparedRun],
    pairs: Sequence[tuple[str, str]],
    names: Sequence[str],
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    """Differences of pairs of runs: the table ``differences``.

    Controls are not tested. Metrics that count tokens are left out between indexes of different
    tokenizers, and a metric that neither run defines (extraction, where there is no true
    continuation) has no row.

    Parameters
    ----------
    runs : sequence of ComparedRun
    pairs : sequence of (str, str)
        Names of two runs; the second is subtracted.
    names : sequence of str
        Names of metrics.
    seed : int
    rounds : int
        Least number of rounds of bootstrap and permutation test; there are more where the table
        has so many tests that Holm's correction would leave none.

    Returns
    -------
    DataFrame

    Raises
    ------
    MetricError
        A metric is unknown.

    Notes
    -----
    Pairing cancels out the prompts, not the chance of training: two models that were trained with
    different seeds differ too, and one of each does not tell by how much.
    """
    metrics = [metric_named(name) for name in names]
    compared = [
        (both, metric)
        for both in _in_both(runs, pairs, _TESTED)
        for metric in metrics
        if _comparable(both, metric)
    ]
    n_tests = sum(not both.why_unpaired for both, _ in compared)
    enough = max(rounds, _ROUNDS_PER_TEST * n_tests)
    rows = [_difference_row(both, metric, seed, enough) for both, metric in compared]
    table = _table("differences", rows)
    tested = table["p"].notna()
    table["p_holm"] = table["p_holm"].astype(object)
    table.loc[tested, "p_holm"] = holm(table.loc[tested, "p"].astype(float))
    return table


def _comparable(both: _Both, metric: Metric) -> bool:
    if counts_tokens(metric.name) and not _one_tokenizer(both.a, both.b):
        return False
    return any(metric.ratio(part)[1].sum() > 0 for part in (both.of_a, both.of_b))


def _one_tokenizer(a: ComparedRun, b: ComparedRun) -> bool:
    """Whether both indexes count in the same tokens; if that is not known, whether they are one."""
    if a.tokenizer and b.tokenizer:
        return a.tokenizer == b.tokenizer
    return a.input("index") == b.input("index")


def _difference_row(both: _Both, metric: Metric, seed: int, rounds: int) -> dict[str, Any]:
    first, second = (groups.prompt_sums(metric, p) for p in (both.of_a, both.of_b))
    values = [sums.value if sums.n_prompts else None for sums in (first, second)]
    row = both.labels | {
        "metric": metric.name,
        "value_a": values[0],
        "value_b": values[1],
        "paired": not both.why_unpaired,
        "why_unpaired": both.why_unpaired,
        "n_prompts_a": first.n_prompts,
        "n_prompts_b": second.n_prompts,
        "p_holm": None,
    }
    if None in values:
        nothing = dict.fromkeys(("difference", "low", "high", "p"))
        return row | nothing | {"interval": "none"}
    compare = unpaired_difference if both.why_unpaired else paired_difference
    found: Difference = compare(first, second, seed, rounds)
    return row | {
        "difference": found.value,
        "low": found.interval.low,
        "high": found.interval.high,
        "interval": found.interval.method,
        "p": found.p_value,
    }


def shifts(
    runs: Sequence[ComparedRun],
    pairs: Sequence[tuple[str, str]],
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    r"""Whether copying went from verbatim to near-verbatim: the table ``shifts``.

    .. math:: S = \frac{n_a}{n_b} - \frac{v_a}{v_b}

    with a verbatim metric v (FMR, ALS) and a near-verbatim one n (NVR, NVR_max) of the runs a and
    b. Above 0, of what b copied nearly verbatim a has kept more than of what it copied verbatim:
    it still knows the texts, and no longer to the letter.

    Parameters
    ----------
    runs, pairs, seed, rounds
        As `differences`.

    Returns
    -------
    DataFrame
        Where a metric is 0 in ``run_b``, or undefined, ``shift`` is empty.

    Notes
    -----
    A ratio of small numbers moves far by chance; rounds in which it is undefined are counted and
    left out. ALS of any text is above 0, since common phrases stand in any corpus, so it never
    falls to 0 and makes a shift away from verbatim look smaller than FMR does.
    """
    rows = []
    for both in _in_both(runs, pairs, _TESTED):
        for verbatim in VERBATIM:
            if counts_tokens(verbatim) and not _one_tokenizer(both.a, both.b):
                continue
            for near in NEAR_VERBATIM:
                row = _shift_row(both, METRICS[verbatim], METRICS[near], seed, rounds)
                rows.append(row)
    return _table("shifts", rows)


def _shift_row(
    both: _Both, verbatim: Metric, near: Metric, seed: int, rounds: int
) -> dict[str, Any]:
    of_a, of_b = (
        np.concatenate(
            [groups.prompt_sums(metric, part).sums for metric in (verbatim, near)], axis=1
        )
        for part in (both.of_a, both.of_b)
    )
    kept_verbatim, kept_near = (values[0] for values in _kept(of_a.sum(0)[None], of_b.sum(0)[None]))
    rng = np.random.default_rng(seed)
    if both.why_unpaired:
        drawn = [resampled_sums(sums, rng, rounds) for sums in (of_a, of_b)]
    else:
        together = resampled_sums(np.concatenate([of_a, of_b], 1), rng, rounds)
        drawn = [together[:, :4], together[:, 4:]]
    verbatim_rounds, near_rounds = _kept(*drawn)
    interval = percentile_interval(near_rounds - verbatim_rounds)
    defined = np.isfinite(kept_near - kept_verbatim)
    spread = defined and min(len(of_a), len(of_b)) > 1
    return both.labels | {
        "verbatim": verbatim.name,
        "near_verbatim": near.name,
        "kept_verbatim": _or_none(kept_verbatim),
        "kept_near_verbatim": _or_none(kept_near),
        "shift": _or_none(kept_near - kept_verbatim),
        "low": interval.low if spread else None,
        "high": interval.high if spread else None,
        "paired": not both.why_unpaired,
        "n_prompts": min(len(of_a), len(of_b)),
        "n_rounds": rounds,
        "n_rounds_undefined": int(np.isnan(near_rounds - verbatim_rounds).sum()),
    }


def _kept(of_a: Floats, of_b: Floats) -> tuple[Floats, Floats]:
    """Each metric in a, of that in b: of rows of (numerator, denominator) of both metrics."""
    values = [
        [ratios(sums[:, columns]) for columns in (slice(0, 2), slice(2, 4))]
        for sums in (of_a, of_b)
    ]
    kept = [ratios(np.stack([a, b], 1)) for a, b in zip(*values, strict=True)]
    return kept[0], kept[1]


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    columns = list(tables.TABLES[name].columns)
    return pd.DataFrame([[row[column] for column in columns] for row in rows], columns=columns)


def require_metrics(names: Sequence[str]) -> None:
    """Refuse names of metrics that cannot be compared.

    Raises
    ------
    MetricError
        There is none, or one is unknown.
    """
    if not names:
        raise MetricError(f"no metric to compare; known are {', '.join(METRICS)}")
    for name in names:
        metric_named(name)
