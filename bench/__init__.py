"""Benchmarks: they predict first, and take the database and the side effects as the truth.

Each module here is one measurement with `PREDICTION`, `options` and `measure`; `place` is where it
is taken, `children` are the processes that take part, `marks` what handlers leave behind, `sheet`
what is printed and kept.
"""
