"""The public object and its calls."""
