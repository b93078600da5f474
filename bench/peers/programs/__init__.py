"""One program a peer, run by the Python (or Node) of that peer's own environment.

Each is `Program` filled in: a newcomer's few lines, with the settings that its documents recommend
for speed or with none. `runtime` is all that they share, and needs nothing but Python itself.
"""
