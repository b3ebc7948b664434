"""A session as a sequence diagram: who told whom what, as SVG and Mermaid.

It may import ``log`` and ``drawing``.
"""
