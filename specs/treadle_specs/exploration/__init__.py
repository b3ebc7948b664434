"""Exhaustive exploration of the shipped kernel: inputs, laws, canonical states, search, counterexamples.

Beside it the kernel's abstraction for spin, its mutants, and the stepper that moves a whole driver one step at a time.
The room imports the core; of the other rooms none.
"""
