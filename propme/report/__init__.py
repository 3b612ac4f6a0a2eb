"""From tables to what people read: sentences, pages, the audit summary, tables for papers."""

from propme.report.findings import answers, findings
from propme.report.showing import excerpt, shown
from propme.report.site import write_report
from propme.report.wording import breakdown, filtered_headlines, headline_table, tries_table

__all__ = [
    "answers",
    "breakdown",
    "excerpt",
    "filtered_headlines",
    "findings",
    "headline_table",
    "shown",
    "tries_table",
    "write_report",
]
