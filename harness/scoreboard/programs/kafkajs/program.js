// Sends lines to a topic, or prints the records of one: kafkajs.
const { Kafka } = require('kafkajs')
const readline = require('readline')

const [role, mode] = process.argv.slice(2)
const retry = mode === 'at-most-once' && role === 'producer' ? { retries: 0 } : undefined
const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP_SERVERS], ...(retry && { retry }) })

async function produce() {
  const producer = kafka.producer()
  await producer.connect()
  const settings = { 'at-most-once': { acks: 1 }, 'at-least-once': { acks: -1 } }[mode] ?? {}
  const sends = []
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const message = { topic: 'orders', messages: [{ value: line }], ...settings }
    sends.push(
      producer.send(message).catch((error) => {
        console.error('not sent:', error.message)
        if (mode !== 'at-most-once') process.exit(1)
      }),
    )
  }
  await Promise.all(sends)
  await producer.disconnect()
}

async function read() {
  const group = role === 'processor' ? 'pricing' : 'billing'
  const consumer = kafka.consumer({ groupId: group })
  const producer = kafka.producer({ transactionalId: 'pricing', maxInFlightRequests: 1, idempotent: true })
  if (role === 'processor') await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
  const eachMessage = async ({ topic, partition, message }) => {
    const after = { topic, partition, offset: (BigInt(message.offset) + 1n).toString() }
    if (role === 'processor') {
      const transaction = await producer.transaction()
      await transaction.send({ topic: 'priced', messages: [{ value: message.value }] })
      const topics = [{ topic, partitions: [after] }]
      await transaction.sendOffsets({ consumerGroupId: group, topics })
      return transaction.commit()
    }
    if (mode === 'at-most-once') await consumer.commitOffsets([after])
    console.log(message.value.toString())
    if (mode === 'at-least-once') await consumer.commitOffsets([after])
  }
  await consumer.run({ ...(mode !== 'as-it-comes' && { autoCommit: false }), eachMessage })
}

;(role === 'producer' ? produce() : read()).catch((error) => (console.error(error), process.exit(1)))
