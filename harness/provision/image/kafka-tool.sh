#!/bin/sh
# kafka-storage, and any other class by kafka-run-class. What the locked jars don't have is not here.
set -eu
case "${0##*/}" in
  kafka-storage.sh) main=kafka.tools.StorageTool ;;
  *) main=$1; shift ;;
esac
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "/opt/kafka/libs/*" "$main" "$@"
