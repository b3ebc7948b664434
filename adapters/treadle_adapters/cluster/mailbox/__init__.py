"""The mailbox: what is asked of a session is accepted by any process and taken, once, by whoever owns the session.

``asked`` is what can be asked, ``rows`` are the statements, ``wires`` tells and hears; ``post`` accepts and finds out
what came of it, ``ref`` is an agent's calls over that; ``taking`` does what is asked, ``carrier`` carries letters into
the sessions of a replica, ``approvals`` and ``live`` are what is told beside the log.
May import: the core, and the door of ``stores.postgres``.
"""

from treadle_adapters.approvals import Approval, Approvals

from .asked import LetterTaken
from .carrier import Carrier
from .live import Live
from .post import Post
from .ref import AgentRef, Posted
from .taking import wake_parked

__all__ = ["AgentRef", "Approval", "Approvals", "Carrier", "LetterTaken", "Live", "Post", "Posted", "wake_parked"]
