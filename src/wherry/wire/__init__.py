"""What goes over the wire: the generated messages, and how ours are written as them."""
