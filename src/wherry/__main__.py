"""`python -m wherry` is `wherry`."""

from __future__ import annotations

from wherry.cli import main

if __name__ == "__main__":
    main(prog_name="wherry")
