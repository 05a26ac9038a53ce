#!/bin/sh
# The guest agent is stripped, static, and at most 1 MiB.
set -eu
agent=$(realpath "$1")
size=$(wc -c <"$agent")
[ "$size" -le 1048576 ] || { echo "$agent has $size bytes, 1048576 are allowed"; exit 1; }
if readelf -l "$agent" | grep -q 'INTERP'; then echo "$agent is not static"; exit 1; fi
if readelf -S "$agent" | grep -q ' \.symtab'; then echo "$agent is not stripped"; exit 1; fi
# started anywhere but as process 1 it refuses
code=0; text=$("$agent" 2>&1) || code=$?
[ "$code" = 125 ] || { echo "as an ordinary process it ended with $code: $text"; exit 1; }
echo "$size bytes"
