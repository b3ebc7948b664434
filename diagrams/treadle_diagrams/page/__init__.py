"""A session as a page: one HTML file that needs nothing else; and what a page draws with that shows it live.

It may import ``log``, ``lifecycle`` and ``drawing``.
"""
