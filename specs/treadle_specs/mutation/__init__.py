"""Mutation of the code that decides: small changes of the shipped sources, and which layer of the tests notices each.

- ``operators``: the changes of a source file, each with a name that outlives a move of its line.
- ``swapping``: puts one change into the functions of this process.
- ``judging``: forks a process for one change, runs the layers there, and watches over it.
- ``warming``: the process that is forked: the tests are loaded and were run once, so it is known which reach what.
- ``parts``: what is mutated, by part, with the layers that have to notice.
- ``ledger``: the changes that no behaviour tells apart, each with its reason.
- ``figures``: what runs came to, as the page of the verification tells it.

It may import everything of the specs but the reports. The tests themselves are those of a checkout.
"""
