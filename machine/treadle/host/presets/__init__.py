"""Presets: named, revised bundles of tools, prompt parts and options that agents are bound to.

May import: what ``host`` may.
"""
