// Copies each record of a topic to another one, in a transaction with its position: kafkajs. "keyed": its key, too.
const { Kafka } = require('kafkajs')

const how = process.argv.at(-1)
const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP_SERVERS] })
const consumer = kafka.consumer({ groupId: 'pricing' })
const producer = kafka.producer({ transactionalId: 'pricing', maxInFlightRequests: 1, idempotent: true })

async function copy({ topic, partition, message }) {
  const transaction = await producer.transaction()
  const { key, value } = message
  await transaction.send({ topic: 'priced', messages: [how === 'keyed' ? { key, value } : { value }] })
  const after = { partition, offset: (BigInt(message.offset) + 1n).toString() }
  await transaction.sendOffsets({ consumerGroupId: 'pricing', topics: [{ topic, partitions: [after] }] })
  await transaction.commit()
}

async function run() {
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: copy })
}

run().catch((error) => (console.error(error), process.exit(1)))
