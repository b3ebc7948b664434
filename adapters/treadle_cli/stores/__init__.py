"""``treadle sessions``: where sessions are kept, which one is meant, and what can be done to them.

It imports no other room.
"""
