"""The span viewer: every completion of a run with what of it stands in the corpus, in one file."""

from propme.viewer.page import write_viewer

__all__ = ["write_viewer"]
