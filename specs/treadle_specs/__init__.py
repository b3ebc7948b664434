"""What treadle promises, in executable form.

The contract is ``contract.md``, the rig protocol ``PROTOCOL.md``, its cases lie in ``cases/``. The rooms, each of which
imports the core (with Hypothesis and the standard tools of the project) and only rooms named before it:

- ``model``: the contract in code: what each input of an agent leads to.
- ``kits``: hold anyone's model adapter or store to its promises.
- ``logs``: check a session's log, and what spoils one.
- ``exploration``: every way the kernel can go, beside the model; the model for spin.
- ``rig``: this driver behind the rig protocol, stepped by a tester.
- ``rigkit``: what a rig for another driver is written with, in Python and in JavaScript.
- ``conformance``: hold any driver behind that protocol to the contract.
- ``mutation``: small changes of the core's code, and which layer of all this notices each.
- ``reports``: the pages that are generated from all of it.
"""
