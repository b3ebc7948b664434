"""Exhaustive exploration of the shipped kernel: inputs, laws, canonical states, search, counterexamples."""
