"""Machines: whole hosts, and the write path of stores, driven by drawn programs on virtual time and held to small models.

They see what no kernel can be asked for: the shell, the pipeline of tools, presets, and what a store may lose. They import
the core, the stepper of ``exploration``, the checker of ``logs`` and how faults are planted in ``conformance``; which stores
there are is told to them.
"""
