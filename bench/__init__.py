"""What only we measure, beside `wherry bench`: the server's doors, and others' queues.

Each measurement has the form of those in `wherry.bench`, and is run by `./run bench NAME` as they
are; RESULTS.md has the figures of all of them.
"""
