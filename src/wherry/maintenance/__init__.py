"""What keeps the queues tidy: inside any worker, from any number of them at once."""
