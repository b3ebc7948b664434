"""Many agents: the composition root, look-up and publication, ownership, sessions, configuration, presets, sub-agents.

May import: every room but ``asyncio``.
"""
