"""Pure rules: no I/O, no clock, no driver. Everything here can be tested without a database."""
