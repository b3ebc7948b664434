"""The vocabulary: what everybody says and nobody does.

Messages, the chunks of a model's stream, failures, events, reasons, call configuration, the signal and the frames of a
live attempt. Data with its checks, no decision. May import: the root.
"""
