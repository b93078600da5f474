"""What Wherry shows to others' tools; each module needs an extra of its own."""
