"""Benchmarks: they predict first, and take the database and the side effects as the truth."""
