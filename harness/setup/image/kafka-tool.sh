#!/bin/sh
# The programs of Kafka's bin folder, by the name they are called by.
set -eu
case "$(basename "$0" .sh)" in
  kafka-topics) main=org.apache.kafka.tools.TopicCommand ;;
  kafka-consumer-groups) main=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
  kafka-console-producer) main=org.apache.kafka.tools.ConsoleProducer ;;
  kafka-console-consumer) main=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
  kafka-broker-api-versions) main=org.apache.kafka.tools.BrokerApiVersionsCommand ;;
  kafka-storage) main=kafka.tools.StorageTool ;;
  *) main=$1; shift ;;
esac
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "/opt/kafka/libs/*" "$main" "$@"
