"""``treadle conform``, ``replay``, ``explore``, ``check`` and ``export promela``: what ``treadle_specs`` holds to its word.

It imports no other room.
"""
