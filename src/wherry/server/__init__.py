"""The server: the same verbs over gRPC and HTTP. It decodes, calls and encodes."""
