"""What several commands show on a terminal: a transcript with a margin, and turns in a few words.

It imports no other room.
"""
