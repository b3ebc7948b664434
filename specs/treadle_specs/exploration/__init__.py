"""Exhaustive exploration of the shipped kernel beside the model: inputs, comparison, laws, search, counterexamples.

Beside it the model's graph for spin, mutants of the table, and the stepper that moves a whole driver one step at a time.
The room imports the core and the room ``model``.
"""
