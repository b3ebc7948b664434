"""Where others take part: scopes of registrations, the hook points with their payloads and decisions, their dispatch.

May import: the root, ``words``, the kernel's effects, ``models``, ``session``; names ``Agent`` for typing only.
"""
