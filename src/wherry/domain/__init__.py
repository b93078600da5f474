"""Pure rules: no I/O and no driver, so that everything here can be tested without a database.

Nothing here asks what time it is but a lease, which counts on this process's monotonic clock.
"""
