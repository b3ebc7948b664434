"""A session as a page: one HTML file that needs nothing else.

It may import ``log``, ``lifecycle`` and ``drawing``.
"""
