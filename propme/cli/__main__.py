"""``python -m propme.cli``: the command without its installed name."""

import sys

from propme.cli import main

sys.exit(main())
