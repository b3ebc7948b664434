"""Compaction: old history gives way to summaries, so that what is said to the model fits its window (§17).

``ledger`` knows what the next request takes, ``ranges`` what is old enough to go, ``summaries`` what stands for it, and
``installed`` when that is done; ``compaction`` is what users set.
"""
