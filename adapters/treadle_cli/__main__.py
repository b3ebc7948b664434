"""``python -m treadle_cli`` is ``treadle``."""

import sys

from . import command

if __name__ == "__main__":
    sys.exit(command())
