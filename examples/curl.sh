#!/bin/sh
# The whole life of a task over HTTP, with nothing but curl. In another terminal: wherry server
#
# WHERRY_URL    where the server is, http://127.0.0.1:8080 if not said
# WHERRY_TOKEN  where the server asks for one: a token for the queue curl with enqueue, work and read
set -eu

api="${WHERRY_URL:-http://127.0.0.1:8080}/api/v1"

post() {
    path=$1
    shift
    ask "$api$path" --header 'Content-Type: application/json' --data "$1"
}

# Print the answer, or end with what the server says is wrong.
ask() {
    if ! answer=$(curl --fail-with-body --silent --show-error \
        ${WHERRY_TOKEN:+--header "Authorization: Bearer $WHERRY_TOKEN"} "$@"); then
        echo "$answer" >&2
        exit 1
    fi
    echo "$answer"
}

# The value of the first field of this name in the JSON that comes in: enough for an example.
field() {
    grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4
}

# Store a task. With a key, sending it again (after a lost answer, say) is the same task.
key=greeting-$$-$(date +%s)
stored=$(post /tasks '{
    "queue": "curl", "type": "greet", "payload": {"name": "world"},
    "key": "'"$key"'", "max_attempts": 3
}')
echo "stored:    task $(echo "$stored" | field id)"

# Lease one, waiting up to 10 s until there is one.
leased=$(post /leases '{"worker_id": "curl", "queues": ["curl"], "wait": "10s"}')
lease=$(echo "$leased" | field lease)
echo "leased:    $(echo "$leased" | field type)"

# Work that takes longer than the lease needs a heartbeat in between.
beat=$(post /leases:heartbeat '{"leases": ["'"$lease"'"], "extend_by": "60s"}')
echo "heartbeat: $(echo "$beat" | field answer)"

# Done, with a result. Saying it again is harmless.
done=$(post /leases:complete '{"lease": "'"$lease"'", "result": {"said": "Hello, world!"}}')
echo "complete:  $(echo "$done" | field answer)"
again=$(post /leases:complete '{"lease": "'"$lease"'", "result": {"said": "Hello, world!"}}')
echo "again:     $(echo "$again" | field answer)"

# Read it, by its key.
read=$(ask --get --data-urlencode 'queue=curl' --data-urlencode "key=$key" "$api/tasks:find")
echo "read:      $(echo "$read" | field state), $(echo "$read" | field said)"

# Say goodbye: a worker that only falls silent is missed.
post /workers:leave '{"worker_id": "curl"}' >/dev/null
