"""Files that people write, read within bounds; what is wrong with one is told at once, with line and column (O8, X3).

``documents`` has what all kinds share; ``toml``, ``yaml`` and ``json`` are the kinds; ``shapes`` compares with types.
"""
