"""One run of several, in a process of its own: ``python -m propme.runner.job`` reads it as JSON."""

from __future__ import annotations

import json
import sys

from propme.errors import PropMeError
from propme.runner.running import Which, run_with


def main() -> int:
    """Run what standard input describes; return the exit status."""
    asked = json.load(sys.stdin)
    try:
        run_with(asked["effective"], Which(**asked["which"]))
    except (PropMeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
