"""``treadle demo``: what is played, on which stage, and what is left of it.

It may import ``terminal``.
"""
