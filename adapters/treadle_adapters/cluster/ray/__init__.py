"""Replicas that Ray keeps alive: one actor per process of agents, on whichever machine has room (extra ``ray``).

Ray places and restarts; who may drive a session is said by the lease in the database and by nothing else, so an actor that
Ray runs twice, or takes for dead while it lives, is harmless. ``placement`` says which replica gets a session, ``actor`` is
what runs in each process, ``cluster`` starts, resizes and drains them, from any process.
May import: the core, ``cluster`` beside it, and the door of ``stores.postgres``.
"""

from .actor import Spec, Standing
from .cluster import Cluster
from .placement import Load, choose, moves

__all__ = ["Cluster", "Load", "Spec", "Standing", "choose", "moves"]
