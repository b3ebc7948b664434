"""What long sessions need beside the loop, built on public names alone: each part is a door of its own.

May import: every room but ``asyncio``, by its door.
"""
