#!/bin/sh
# Writes wherryv1/ from the .proto files. Needs protoc, protoc-gen-go and protoc-gen-go-grpc on PATH.
set -eu
cd "$(dirname "$0")"
package=example.org/wherry/wherryv1
set --
for path in ../../proto/wherry/v1/*.proto; do
    name=wherry/v1/$(basename "$path")
    set -- "$@" "--go_opt=M$name=$package" "--go-grpc_opt=M$name=$package"
done
protoc -I../../proto "$@" \
    --go_out=. --go_opt=module=example.org/wherry \
    --go-grpc_out=. --go-grpc_opt=module=example.org/wherry \
    ../../proto/wherry/v1/*.proto
