#!/bin/sh
# Settings from the KAFKA_* variables, the volume formatted where it is new, then the broker in this process's place.
set -eu
: "${CLUSTER_ID:=5L6g3nShT-eMCtK--X86sw}"
export CLUSTER_ID
share="-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
[ -e /opt/kafka/kafka.jsa ] && share="$share -XX:SharedArchiveFile=/opt/kafka/kafka.jsa"
jars=$(printf '%s:' /opt/kafka/libs/*.jar)
said=$(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $share -cp "$jars" kafka.docker.KafkaDockerWrapper setup \
  --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) || {
  # a volume that was formatted before is what a restart finds
  echo "$said" | grep -q "already formatted" || { echo "$said" >&2; exit 1; }
}
exec java ${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G} ${KAFKA_JVM_PERFORMANCE_OPTS:--server -XX:+UseG1GC} $share ${KAFKA_OPTS:-} \
  -cp "$jars" kafka.Kafka /opt/kafka/config/server.properties
