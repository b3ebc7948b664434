"""Many machines: replicas that own sessions by leases, and take over those of replicas that died.

PostgreSQL is the truth. ``lease`` says how long a replica may act, ``rows`` are the statements, ``peers`` counts the beats
of others and finds who is dead, ``guard`` keeps an agent from acting without a lease, ``mailbox`` carries what is asked
of a session to whoever owns it, ``replica`` runs all of it.
May import: the core, and the door of ``stores.postgres``.
"""

from .mailbox import AgentRef, Approval, Live, Post, Posted
from .replica import BEATS, LEASE, Replica

__all__ = ["BEATS", "LEASE", "AgentRef", "Approval", "Live", "Post", "Posted", "Replica"]
