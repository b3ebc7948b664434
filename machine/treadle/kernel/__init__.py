"""The decision, in one direction.

``pending``, ``schedule``, ``inputs`` and ``effects`` are data; over them ``state`` holds one agent's lifecycle and the
pieces that claim, record and settle; ``verbs`` are what rows do; ``lifecycle`` is the table; ``commands`` and ``outcomes``
refine an input to a trigger; ``kernel`` receives. Pure: no loop, no clock, no chance. May import: the root, ``words``.
"""
