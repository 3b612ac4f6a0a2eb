"""Documents out of corpus files, one at a time, so that memory does not grow with the corpus."""

from propme.corpus.collection import Corpus, Tally
from propme.corpus.documents import read_documents
from propme.corpus.finding import find_files
from propme.corpus.sampling import sample_file

__all__ = ["Corpus", "Tally", "find_files", "read_documents", "sample_file"]
