"""Programs to read and to run; each of them is run by a test in tests/e2e.

Start with quickstart.py. They use `embedded:`, a PostgreSQL that Wherry starts by itself, so none
of them needs anything but Wherry; for a database of your own, change that one argument.
"""
