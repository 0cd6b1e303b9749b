// Sends lines to a topic, or prints the records of one: @confluentinc/kafka-javascript.
const { Kafka } = require('@confluentinc/kafka-javascript').KafkaJS
const readline = require('readline')

const [role, mode] = process.argv.slice(2)
const kafka = new Kafka({ kafkaJS: { brokers: [process.env.BOOTSTRAP_SERVERS] } })

async function produce() {
  const modes = { 'at-most-once': { acks: 1, retry: { retries: 0 } }, 'at-least-once': { acks: -1 } }
  const producer = kafka.producer({ kafkaJS: modes[mode] ?? {} })
  await producer.connect()
  const sends = []
  for await (const line of readline.createInterface({ input: process.stdin })) {
    sends.push(
      producer.send({ topic: 'orders', messages: [{ value: line }] }).catch((error) => {
        console.error('not sent:', error.message)
        if (mode !== 'at-most-once') process.exit(1)
      }),
    )
  }
  await Promise.all(sends)
  await producer.disconnect()
}

async function read() {
  const comes = mode === 'as-it-comes' || mode === 'kip-848'
  const groupId = role === 'processor' ? 'pricing' : 'billing'
  const consumer = kafka.consumer({
    kafkaJS: { groupId, fromBeginning: true, ...(!comes && { autoCommit: false }) },
    ...(mode === 'kip-848' && { 'group.protocol': 'consumer' }),
  })
  const producer = kafka.producer({ kafkaJS: { transactionalId: 'pricing' } })
  if (role === 'processor') await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: ['orders'] })
  const eachMessage = async ({ topic, partition, message }) => {
    const after = { topic, partition, offset: (BigInt(message.offset) + 1n).toString() }
    if (role === 'processor') {
      const transaction = await producer.transaction()
      await transaction.send({ topic: 'priced', messages: [{ value: message.value }] })
      await transaction.sendOffsets({ consumer, topics: [{ topic, partitions: [after] }] })
      return transaction.commit()
    }
    if (mode === 'at-most-once') await consumer.commitOffsets([after])
    console.log(message.value.toString())
    if (mode === 'at-least-once') await consumer.commitOffsets([after])
  }
  await consumer.run({ eachMessage })
}

;(role === 'producer' ? produce() : read()).catch((error) => (console.error(error), process.exit(1)))
