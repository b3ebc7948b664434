"""More machines than there are here: the shipped replicas, on virtual time, against a model of the database.

``costs`` says what each statement takes, ``database`` answers as the database would, ``fleet`` runs replicas and has them
die, ``scenarios`` are what befalls them, ``page`` tells the figures in ``docs/operations.md``. What decides is
``cluster.Replica`` itself: when it beats and looks, whom it buries, what it claims. Nothing here reaches a server.
May import: the core, and the rooms ``cluster`` and ``stores``.

``python -m treadle_adapters.simulation`` prints the figures of a fleet; ``--help`` says what can be chosen.
"""

from .costs import STATEMENTS, Statement
from .fleet import Plan
from .scenarios import Deploy, Rack, Stall, Steady, deploy, longest_stall, rack, stall, steady

__all__ = [
    "STATEMENTS",
    "Deploy",
    "Plan",
    "Rack",
    "Stall",
    "Statement",
    "Steady",
    "deploy",
    "longest_stall",
    "rack",
    "stall",
    "steady",
]
