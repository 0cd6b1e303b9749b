// Sends orders to a topic, and reads them.
import { Kafka } from 'kafkajs';

const client = (broker) => new Kafka({ brokers: [broker], clientId: 'orders' });

// Sends orders one behind the other; resolves when the broker has confirmed the last one.
export async function place(broker, topic, numbers, options = {}) {
  const producer = client(broker).producer({ allowAutoTopicCreation: true, ...options });
  await producer.connect();
  try {
    for (const number of numbers) {
      await producer.send({ topic, messages: [{ value: JSON.stringify({ order: number }) }] });
    }
  } finally {
    await producer.disconnect();
  }
}

// Resolves to the orders of a topic, in order, up to the one called last.
export async function read(broker, topic, last) {
  const consumer = client(broker).consumer({ groupId: `orders-${topic}` });
  await consumer.connect();
  const found = [];
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
      const eachMessage = async ({ message }) => {
        const { order } = JSON.parse(message.value);
        found.push(order);
        if (order === last) resolve();
      };
      consumer.run({ eachMessage }).catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
  return found;
}
