"""The command line. It turns words into calls of an App, and answers into tables or JSON.

It decides nothing about the queue. Modules here import what is heavy (the database's driver, the
App, rich) inside the functions that need it: `wherry --help` has to be there at once.
"""

from __future__ import annotations

from wherry.cli.entry import Door
from wherry.cli.verbs import main

__all__ = ["Door", "main"]
