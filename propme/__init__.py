"""PropMe: does a language model leak its training data, or could it only be made to?"""

__version__ = "0.1.0"
