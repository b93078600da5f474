"""The dashboard: what an operator looks at, and does, in a browser; pages from this server alone.

It is mounted at `/dashboard/` of the HTTP door. To add a page:

1. Write `async def show_x(visit: Visit) -> Shown` in a module of `pages/`. Everything it reads goes
   through `visit.read(service verb, …)`: with the visitor's rights, and kept for two seconds for
   all who look at the same. Never call the App from here.
2. Put `Page("x", show_x)` into that module's `PAGES`, and the module into `pages/__init__.py`; a
   page of the navigation gets a `Place` there too.
3. Write `templates/x.html`: it extends `layout`, fills the block `content`, and is made of the
   macros of `parts.html`. Rows have an `id` made of what they show (`name | mark`), so that a
   live page keeps what is focused or open. Stored JSON is shown by `visit.json(text,
   of="payload")`, which hides what is to be hidden and makes no floats.
   `tests/browser/addresses.py` gets its address.
4. What changes something is an `Action`: `ask` says what is asked before it happens (a page of its
   own, and a dialog where there is JavaScript), `act` does it by a verb of the service and says
   what happened and where to go. Right, token of the form and sender are checked before it runs.

A newcomer would get wrong: every path has one step (`/dashboard/queue?name=…`), so that links need
no root and cookies no path, whatever prefix a proxy puts before them. And there is no inline
script or style: Content-Security-Policy refuses both, so that a chart is made of attributes and
classes. Colour stands for a state only, and never alone.
"""

from wherry.server.dashboard.site import Dashboard

__all__ = ["Dashboard"]
