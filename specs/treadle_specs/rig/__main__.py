"""``python -m treadle_specs.rig``."""

import sys

from .wire import main

sys.exit(main())
