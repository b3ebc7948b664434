"""What all drawings share: colours, markup, times and counts as people read them.

It knows the core only, none of the other rooms.
"""
