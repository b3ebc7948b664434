"""An abstraction of the kernel: one tagged message among arbitrary others, walked in Python and checked by spin."""
