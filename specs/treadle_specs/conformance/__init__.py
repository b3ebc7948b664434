"""The conformance kit: what must hold of any driver behind the rig protocol, and what looks for where it does not."""
