"""``python -m treadle_cli`` is ``treadle``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
