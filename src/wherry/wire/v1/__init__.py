"""Generated from proto/wherry/v1 by `./run proto`."""
