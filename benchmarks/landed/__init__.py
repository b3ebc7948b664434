"""The figures that landed: measured as a whole, kept in a file, shown on a page, and compared with what a change costs.

    python -m benchmarks.landed --measure    # everything: minutes, on a machine that has nothing else to do
    python -m benchmarks.landed --write      # the page and its picture, from the file
    python -m benchmarks.landed --check      # exit status 1 when these are older than the file
    python -m benchmarks.landed --compare    # exit status 1 when something has become dearer than may be

Its modules import the benchmarks beside them; nothing imports it.
"""
