"""The conformance kit: what must hold of any driver behind the rig protocol, and what looks for where it does not.

The room imports the core and Hypothesis, the rooms ``exploration``, ``logs`` and ``rig``, and the runner of cases.
"""
