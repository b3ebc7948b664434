"""``treadle conform``, ``replay``, ``explore``, ``check``, ``rehearse`` and ``export promela``: what ``treadle_specs`` holds to its word.

It imports no other room.
"""
