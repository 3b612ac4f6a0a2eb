"""The prompts of a run at a glance: what the corpus holds of them, and how long they are."""

from __future__ import annotations

import pandas as pd

from propme.records import in_order


def overlap_by_setting(prompts: pd.DataFrame) -> pd.DataFrame:
    """What the corpus holds of each setting's prompts, one row a setting.

    Returns
    -------
    DataFrame
        ``prompts`` and ``refused``; median and maximum of ``longest_span`` (index tokens) and
        ``overlap`` (share of the prompt) over those that are used, how many of them occur whole,
        and the median number of documents that hold such a one.
    """
    used = prompts[prompts["refused"] == ""]
    of_setting = used.groupby("setting")
    table = of_setting.agg(
        kind=("kind", "first"),
        prompts=("text", "size"),
        median_span=("longest_span", "median"),
        longest_span=("longest_span", "max"),
        median_overlap=("overlap", "median"),
        highest_overlap=("overlap", "max"),
        occur_whole=("occurs_whole", "sum"),
    )
    whole = used[used["occurs_whole"]].groupby("setting")["n_documents"].median()
    refused = prompts[prompts["refused"] != ""].groupby("setting").size()
    table.insert(2, "refused", refused.reindex(table.index, fill_value=0))
    return table.assign(median_documents=whole).loc[in_order(table.index)]


def lengths_by_setting(prompts: pd.DataFrame) -> pd.DataFrame:
    """Length of each setting's prompts, and their languages, one row a setting.

    Returns
    -------
    DataFrame
        Least, median and most tokens of the index and of the model (as it is given them; empty
        where that is not known), and how many prompts are in which language.
    """
    used = prompts[prompts["refused"] == ""]
    of_setting = used.groupby("setting")
    columns = {"n_tokens": "index tokens", "n_model_tokens": "model tokens"}
    table = pd.DataFrame(
        {
            f"{name}, {what}": of_setting[column].agg(statistic)
            for column, name in columns.items()
            for what, statistic in (("least", "min"), ("median", "median"), ("most", "max"))
        }
    )
    table["languages"] = of_setting["language"].agg(_counted)
    return table.loc[in_order(table.index)]


def _counted(languages: pd.Series[str]) -> str:
    counts = languages.replace("", "unknown").value_counts()
    return ", ".join(f"{language} {n}" for language, n in counts.items())
