"""The log, and what reads it: the history's surface, stores and their writer, repair, forks, upgrades, projections.

May import: the root, ``words``, and the kernel's pending lists.
"""
