"""What leaked: the longest verbatim passages of each setting, and where they come from."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd

from propme import personal_data
from propme.errors import ParameterError
from propme.masking import (
    MaskedTexts,
    masked_around,
    masked_names,
    masked_texts,
    reaching_into,
)
from propme.personal_data import Found, Masked
from propme.records import in_order

#: What leaked can be counted by.
COLUMNS = ("source", "licence")

#: Length from which a span counts as leaked, in tokens: that of R20.
LEAST_TOKENS = 20

_SPAN = ["generation_id", "span"]


def what_leaked(
    frame: pd.DataFrame,
    spans: pd.DataFrame,
    matches: pd.DataFrame,
    prompts: pd.DataFrame,
    n: int = 10,
    mask: bool = True,
) -> pd.DataFrame:
    """The ``n`` longest kept spans of every setting and decoding, each text once.

    Parameters
    ----------
    frame : DataFrame
        Generations with ``prompt_id``, ``setting``, ``decoding`` and ``text``.
    spans, matches, prompts : DataFrame
        The tables of those names.
    n : int
        Rows of each setting and decoding, at least 1.
    mask : bool
        Whether personal data is replaced by its kind, in passages, prompts and the names of
        documents, sources and licences. It can be only with the extra ``privacy``; without it they
        are shown as they are.

    Returns
    -------
    DataFrame
        ``setting``, ``decoding``; ``tokens`` of the span; ``generations`` of that setting and
        decoding that hold it; ``occurrences`` in the corpus and ``documents`` that hold it (a lower
        bound unless ``documents_exact``); ``document_id``, ``source`` and ``licence`` of the first
        of them that was fetched, before others of one whose ``copies`` are known: of a document of
        which a prompt was made, where the corpus tells them, and so of most others empty;
        ``personal_data``, the kinds that stand in the passage or reach into it, or ``not looked
        for``; ``prompt`` and ``passage``.

    Raises
    ------
    ParameterError
        ``n`` is below 1.

    Notes
    -----
    *How it misleads.* The document shown is one of those that hold the span, not the one it was
    learnt from. Personal data that a passage cuts in two is known by what goes on in prompt and
    completion, and in the documents that were fetched.
    """
    if n < 1:
        raise ParameterError(f"n must be a whole number >= 1, not {n!r}")
    kept = _kept(frame, spans).merge(_one_document(matches, prompts), on=_SPAN, how="left")
    group = ["setting", "decoding"]
    # A passage can stand several times in one generation, which is still one generation.
    kept["generations"] = kept.groupby([*group, "text"])["generation_id"].transform("nunique")
    longest = kept.sort_values(["tokens", *_SPAN], ascending=[False, True, True])
    longest = longest.drop_duplicates([*group, "text"]).groupby(group).head(n)
    longest = _in_order(longest, "tokens")
    looked_for = personal_data.available()
    wanted = kept[kept["text"].isin(longest["text"])]
    texts = _texts_of(wanted, frame, prompts)
    hidden = _masked_passages(wanted, texts, matches) if looked_for else {}
    asked = [texts.prompts[name] for name in longest["prompt_id"]]
    columns = {
        "setting": longest["setting"],
        "decoding": longest["decoding"],
        "tokens": longest["tokens"],
        "generations": longest["generations"],
        "occurrences": longest["n_occurrences"],
        "documents": longest["n_documents"],
        "documents_exact": longest["documents_exact"],
        **{name: _named(longest[name], mask) for name in ("document_id", *COLUMNS)},
        "copies": longest["copies"].astype("Int64"),
        "personal_data": [
            ", ".join(_kinds(hidden[text])) if looked_for else "not looked for"
            for text in longest["text"]
        ],
        "prompt": [prompt.text if mask else prompt.original for prompt in asked],
        "passage": [hidden[text].text if mask and looked_for else text for text in longest["text"]],
    }
    return pd.DataFrame(columns)


def leaked_by(
    frame: pd.DataFrame,
    spans: pd.DataFrame,
    matches: pd.DataFrame,
    column: str,
    least: int = LEAST_TOKENS,
    mask: bool = True,
) -> pd.DataFrame:
    """How much leaked of each source or licence.

    Parameters
    ----------
    frame : DataFrame
        Generations with ``setting`` and ``decoding``.
    spans, matches : DataFrame
        The tables of those names.
    column : str
        ``source`` or ``licence``.
    least : int
        Tokens of a span that counts. Shorter ones are mostly phrases that anyone writes.
    mask : bool
        Whether personal data in the names of sources and licences is replaced by its kind and a
        number (`propme.masking.masked_names`).

    Returns
    -------
    DataFrame
        ``setting``, ``decoding``, the column; ``generations`` with a kept span that stands in a
        document of it, ``documents`` of it that were fetched, and ``longest`` such span in tokens.

    Raises
    ------
    ParameterError
        The column is another.

    Notes
    -----
    *How it misleads.* Only documents that were fetched count, at most ``docs_per_span`` of each
    span, so that all numbers are lower bounds. A generation counts for every source that holds a
    span of it: the numbers add up to more than there are generations.
    """
    if column not in COLUMNS:
        raise ParameterError(f"what leaked is counted by one of {COLUMNS}, not by {column!r}")
    group = ["setting", "decoding", column]
    kept = _kept(frame, spans)
    found = kept[kept["tokens"] >= least].merge(matches[[*_SPAN, "document_id", column]], on=_SPAN)
    counted = found.groupby(group, as_index=False).agg(
        generations=("generation_id", "nunique"),
        documents=("document_id", "nunique"),
        longest=("tokens", "max"),
    )
    shown = counted.assign(**{column: _named(counted[column], mask)})
    return _in_order(shown, "generations")


def personal_data_leaked(
    frame: pd.DataFrame,
    spans: pd.DataFrame,
    prompts: pd.DataFrame,
    matches: pd.DataFrame,
    least: int = LEAST_TOKENS,
) -> pd.DataFrame:
    """How many generations hold a kept span in which personal data stands, by kind of it.

    Parameters
    ----------
    frame : DataFrame
        Generations with ``prompt_id``, ``setting``, ``decoding`` and ``text``.
    spans, prompts, matches : DataFrame
        The tables of those names.
    least : int
        Tokens of a span that counts.

    Returns
    -------
    DataFrame
        ``setting``, ``decoding``, ``personal_data`` (the kind) and ``generations``; empty where
        none was found, and where the extra ``privacy`` is missing.

    Notes
    -----
    *How it misleads.* Common forms only; see `propme.personal_data`. What a passage holds a part of
    counts too: half of an address is in the passage, and all of it in its own prompt and completion
    or in one of its own documents. The same words in another completion count for themselves.
    """
    kept = _kept(frame, spans)
    kept = kept[kept["tokens"] >= least] if personal_data.available() else kept.iloc[:0]
    known = _reaching_into(kept, _texts_of(kept, frame, prompts), matches)
    # A phrase can stand in an address here, and elsewhere in none: each passage for itself.
    passages = [*zip(kept["text"], map(frozenset, known), strict=True)]
    kinds = {each: _kinds(personal_data.masked(each[0], known=[*each[1]])) for each in {*passages}}
    listed = pd.Series([kinds[each] for each in passages], kept.index, dtype=object)
    found = kept.assign(personal_data=listed)
    found = found.explode("personal_data").dropna(subset="personal_data")
    group = ["setting", "decoding", "personal_data"]
    counted = found.groupby(group, as_index=False).agg(generations=("generation_id", "nunique"))
    return _in_order(counted, "generations")


def _kept(frame: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Kept spans with the setting, decoding and prompt of their generation."""
    generation = ["generation_id", "prompt_id", "setting", "decoding"]
    kept = spans[spans["dropped"] == ""].merge(frame[generation], on="generation_id")
    return kept.assign(tokens=kept["stop"] - kept["start"])


def _in_order(table: pd.DataFrame, most: str) -> pd.DataFrame:
    """Rows by decoding and setting, within them most first."""
    rank = {setting: n for n, setting in enumerate(in_order(table["setting"]))}
    order = table.assign(rank=table["setting"].map(rank))
    return (
        order.sort_values(["decoding", "rank", most], ascending=[True, True, False], kind="stable")
        .drop(columns="rank")
        .reset_index(drop=True)
    )


def _one_document(matches: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """The first document fetched for each span, before others one whose copies a prompt tells."""
    known = prompts[(prompts["document_id"] != "") & prompts["copies"].notna()]
    copies = dict(zip(known["document_id"], known["copies"], strict=True))
    documents = matches[[*_SPAN, "document_id", *COLUMNS]].assign(
        copies=matches["document_id"].map(copies)
    )
    known_first = documents.sort_values("copies", key=pd.isna, kind="stable")
    return known_first.drop_duplicates(_SPAN)


def _texts_of(spans: pd.DataFrame, frame: pd.DataFrame, prompts: pd.DataFrame) -> MaskedTexts:
    """What the spans' generations were asked, and what they go on with, masked as one text."""
    return masked_texts(prompts[prompts["prompt_id"].isin(spans["prompt_id"])], frame)


def _masked_passages(
    spans: pd.DataFrame, texts: MaskedTexts, matches: pd.DataFrame
) -> dict[str, Masked]:
    """Each passage without what is personal data in any of the places where it stands."""
    places: dict[str, set[Found]] = defaultdict(set)
    for text, known in zip(spans["text"], _reaching_into(spans, texts, matches), strict=True):
        places[text] |= known
    return {text: personal_data.masked(text, known=[*known]) for text, known in places.items()}


def _reaching_into(
    spans: pd.DataFrame, texts: MaskedTexts, matches: pd.DataFrame
) -> list[set[Found]]:
    """What of the personal data of its completion and its documents stands in each span."""
    places: dict[tuple[str, int], set[Found]] = defaultdict(set)
    around = spans[[*_SPAN, "text"]].merge(matches, on=_SPAN)
    match = ["text", "window", "window_char_start", "window_char_stop"]
    found = {
        (text, *at): reaching_into(text, *masked_around(*at))
        for text, *at in around[match].drop_duplicates().itertuples(index=False)
    }
    for name, span, *at in around[[*_SPAN, *match]].itertuples(index=False):
        places[name, span].update(found[tuple(at)])
    columns = (spans[name] for name in (*_SPAN, "char_start", "char_stop"))
    return [
        places[name, span] | {*texts.completions[name].places_in(int(start), int(stop))}
        for name, span, start, stop in zip(*columns, strict=True)
    ]


def _named(names: pd.Series[str], mask: bool) -> pd.Series[str]:
    """Names as they may be shown; those of documents that are not there stay empty."""
    return names.map(masked_names(names.dropna())) if mask else names


def _kinds(passage: Masked) -> list[str]:
    found = {place.kind for place in passage.places}
    return [kind for kind in personal_data.KINDS if kind in found]
