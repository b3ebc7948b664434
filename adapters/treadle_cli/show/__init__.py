"""``treadle show`` and ``treadle diagram``: what ``treadle_diagrams`` makes of logs and of the lifecycle.

It may import ``stores`` and ``terminal``.
"""
