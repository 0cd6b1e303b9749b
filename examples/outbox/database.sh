#!/bin/sh
# A PostgreSQL server of this run's own: database.sh FOLDER PORT [TABLES [SETTING]]. Its folder outlives a crash.
set -eu
folder=$1 port=$2 tables=${3:-$(dirname "$0")/tables.sql} setting=${4:-}
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')" # where Debian has initdb and postgres
as="" # root must not run it; a user without a name of its own can
if [ "$(id -u)" = 0 ]; then
  as="setpriv --reuid=65534 --regid=65534 --clear-groups"
  chown 65534:65534 "$folder"
fi
if ! $as test -w "$folder"; then
  echo "database.sh: uid $($as id -u), as which the server runs, cannot write $folder: open the folders above it (chmod a+x)," \
    "or choose one that all can reach" >&2
  exit 1
fi
if [ ! -e "$folder/data/PG_VERSION" ]; then
  $as initdb --pgdata "$folder/data" --username shop --auth trust --encoding UTF8 --no-sync >"$folder/initdb.log" 2>&1 ||
    { cat "$folder/initdb.log" >&2; exit 1; }
  $as postgres --single -D "$folder/data" postgres <<'SQL'
CREATE DATABASE shop;
SQL
  $as postgres --single -j -D "$folder/data" shop <"$tables"
fi
exec $as postgres -D "$folder/data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= ${setting:+-c "$setting"}
