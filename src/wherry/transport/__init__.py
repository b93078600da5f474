"""How commands reach PostgreSQL: on connections of our own, or on the caller's."""
