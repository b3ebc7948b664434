"""The lifecycle, drawn from its table: as SVG, Mermaid, DOT and Markdown, with walks laid over it.

Rows become a graph, a graph a plan on paper, a plan a drawing. It may import ``drawing``.
"""
