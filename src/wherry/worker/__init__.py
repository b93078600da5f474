"""Runs handlers: leases tasks, keeps their leases alive, and reports how they ended."""
