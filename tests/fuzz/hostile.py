"""Texts that some part on the way might take for more than data."""

from __future__ import annotations

# What no name, key or payload can hold, since PostgreSQL or UTF-8 cannot.
UNSTORABLE = ("\0", "a\0b", "\ud83d", "x\udcff", "\udcff\udcfe")
TEXTS = (
    "", " ", "\t", "\n", "a\nb", "\r\n", "é", "é", "😀", "😀" * 63, "😀" * 64, "x" * 255,
    "x" * 256, "é" * 127, "é" * 128, "x" * 5000,
    # Right to left, and what turns the rest of a line around.
    "שלום", "\u202egnp.exe", "\u2066a\u2069", "\u200b", "\ufeff", "\u2028", "\x85",
    "\x1b[31mred", "\x1b]0;title\x07", "\x07", "\x08" * 3, "\x7f",
    "'", "''", "' or 1=1 --", '"', '""', '"; drop table wherry.live; --', "\\", "\\\\", "\\'",
    "%", "%%", "%s", "%(id)s", "%n", "{}", "{0}", "{self}", "{{", "$1", "$$", "$tag$", ":name",
    "::text", ":1", ":'x'", "?", "@x", "--", "/*", "*/", ";", "`", "|", "&&", "$(id)", "~",
    "../../etc/passwd", "null", "true", "NaN", "-1", "0x10", "1e400", "9" * 40, "-", "--help",
    "<script>", "&amp;", "[]", "[red]", "[/]", "[link=x]", "*", "**", "a,b", "=", "k=v",
)  # fmt: skip
EVERY = (*UNSTORABLE, *TEXTS)
