"""The contract in code: what each input of an agent leads to, written from ``contract.md`` and from nothing else.

``agent`` is what the contract speaks of, with the small acts that it names; ``calls``, ``turns`` and ``tools`` say what each
input does; ``model`` receives. It is what the shipped kernel is compared with, step by step, so it must not know how the
kernel decides: it imports the words of the log, and the inputs and effects as data.
"""
