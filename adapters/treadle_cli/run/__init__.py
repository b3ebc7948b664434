"""``treadle run``: an agent and its screen put together, what is typed, and what is told of the work.

It may import ``models``, ``stores`` and ``terminal``.
"""
