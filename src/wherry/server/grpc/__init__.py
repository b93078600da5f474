"""The gRPC door: decodes, calls the service, encodes; it decides nothing about the queue."""

from wherry.server.grpc.door import GrpcDoor, GrpcSettings

__all__ = ["GrpcDoor", "GrpcSettings"]
