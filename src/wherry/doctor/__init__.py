"""Looks at a database and says what is wrong with it, and what to do; it changes nothing.

A check is a small thing of its own: a name, a statement or two in sql/doctor/, and a judgment of
their rows, which is pure. `guard` asks the few of them on which a start depends. Everything here
has to work on a database that is sick, as a role that may do little: whatever keeps one check from
looking is that check's finding, and no other's.
"""
