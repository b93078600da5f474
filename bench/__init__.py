"""Benchmarks that predict first, and take the database and the handlers' side effects as the truth."""
