#!/bin/sh
# PostgreSQL with a table for orders: database.sh FOLDER PORT. An ordinary connection makes the table: one that single-user mode
# makes is not published.
url="postgresql://shop@127.0.0.1:$2/shop"
{
  until psql --no-psqlrc --quiet "$url" --command "CREATE TABLE IF NOT EXISTS orders (number text PRIMARY KEY, customer text)"; do
    sleep 0.2
  done 2>/dev/null
  echo "the table is there"
} &
exec "$(dirname "$0")/../outbox/database.sh" "$1" "$2" /dev/null wal_level=logical
