"""Figures as pictures.

It knows the core and ``drawing``.
"""
