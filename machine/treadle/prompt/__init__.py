"""What a prompt is made of: sections, variables, tool order, and contexts that change. How it is assembled is the loop's.

May import: the root, ``words``, ``session``, ``hooks``, ``tools``.
"""
