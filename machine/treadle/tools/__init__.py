"""What a tool is: its definition, schema, registry and result. How calls are run is the loop's.

May import: the root, ``words``, ``hooks``; names ``Agent`` for typing only.
"""
