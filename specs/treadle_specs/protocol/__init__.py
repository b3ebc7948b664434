"""The rig protocol from the tester's side: a rig as a child process, whose every reply is held to the schema before use.

Nothing that a rig does raises anything but ``RigFault``, and nothing makes the tester wait beyond its time. The room
imports nothing of treadle.
"""
