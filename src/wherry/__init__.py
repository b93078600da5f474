"""Wherry: a task queue whose only queue and only source of truth is PostgreSQL.

The names below are imported on first use, so that `import wherry` (and the small keeper process of
the embedded server) stays cheap.
"""
