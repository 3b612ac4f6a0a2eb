"""Comparisons as people read them: tables of texts, computed sentences, the front page."""

from propme.comparison_report.findings import answers, findings
from propme.comparison_report.site import write_report
from propme.comparison_report.wording import (
    LEVEL,
    differences_table,
    levels_table,
    scores_table,
    shifts_table,
)

__all__ = [
    "LEVEL",
    "answers",
    "differences_table",
    "findings",
    "levels_table",
    "scores_table",
    "shifts_table",
    "write_report",
]
