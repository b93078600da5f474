"""Task types and what they carry: the registry, the typed calls and the payload codec."""
