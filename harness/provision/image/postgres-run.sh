#!/bin/sh
# An empty volume gets a cluster, by the POSTGRES_* variables; then the server takes this process's place, never as root.
set -eu
[ "${1#-}" = "$1" ] || set -- postgres "$@"
if [ "$1" = postgres ]; then
  mkdir -p "$PGDATA"
  if [ "$(id -u)" = 0 ]; then
    chown -R postgres "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
  fi
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}" "${POSTGRES_HOST_AUTH_METHOD:=scram-sha-256}"
    if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
      echo "the superuser has no password: set POSTGRES_PASSWORD" >&2
      exit 1
    fi
    chmod 700 "$PGDATA"
    umask 077
    printf '%s\n' "${POSTGRES_PASSWORD:-}" > /tmp/password
    with_password=--pwfile=/tmp/password
    [ -n "${POSTGRES_PASSWORD:-}" ] || with_password=
    initdb -D "$PGDATA" -U "$POSTGRES_USER" $with_password -E UTF8 --locale=C --auth-local=trust --no-instructions
    rm /tmp/password
    echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >> "$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
    [ "$POSTGRES_DB" = postgres ] || echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -j -D "$PGDATA" postgres
  fi
fi
exec "$@"
