#!/bin/bash
# Of the real one, what a health check needs: "list" asks the server, and fails where it does not answer.
set -eu
[ "${1:-}" = list ] || { echo "only: list" >&2; exit 2; }
exec 3<>/dev/tcp/127.0.0.1/8474
printf 'GET /proxies HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
head -n 1 <&3 | grep "200"
