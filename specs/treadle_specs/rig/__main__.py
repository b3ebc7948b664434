"""``python -m treadle_specs.rig``."""

import sys

from .speaking import main

sys.exit(main())
