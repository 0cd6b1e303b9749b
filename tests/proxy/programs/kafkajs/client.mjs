// Sends orders one behind the other, and reads them as a group: BOOTSTRAP TOPIC COUNT IDEMPOTENT.
// Prints the orders that were read, as JSON.
import { Kafka, logLevel } from 'kafkajs';

const [bootstrap, topic, count, idempotent] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], clientId: 'client', logLevel: logLevel.NOTHING });

const producer = kafka.producer({ idempotent: idempotent === 'true' });
await producer.connect();
for (let order = 0; order < Number(count); order += 1) {
  await producer.send({ topic, messages: [{ key: `${order}`, value: JSON.stringify({ order }) }] });
}
await producer.disconnect();

const consumer = kafka.consumer({ groupId: `group-${topic}` });
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
const found = [];
await new Promise((resolve, reject) => {
  consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
  const eachMessage = async ({ message }) => {
    found.push(JSON.parse(message.value).order);
    if (new Set(found).size === Number(count)) resolve();
  };
  consumer.run({ eachMessage }).catch(reject);
});
await consumer.disconnect();
console.log(JSON.stringify(found));
