"""The rig: hosts agents of this driver in a stepped run and lets a tester steer them over stdin and stdout.

Beside it stand the scripts, runs of agents from the first message to the last, whose logs others check and draw. The
room imports the core and the stepper of ``exploration``.
"""
