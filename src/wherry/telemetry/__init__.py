"""What Wherry tells of itself while it runs: its loggers, and what may be read off its parts."""
