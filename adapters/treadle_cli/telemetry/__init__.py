"""``treadle export otlp`` and ``treadle stats``: sessions as spans and as figures, after the fact.

May import: the rooms of the command that open sessions, and what is below.
"""
