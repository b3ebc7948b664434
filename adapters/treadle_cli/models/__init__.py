"""``treadle models``: the model servers that commands can talk to, and the embedded model.

It imports no other room.
"""
