// Sends lines to a topic, or prints the records of one: @platformatic/kafka.
import { createInterface } from 'node:readline'
import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const [role, mode] = process.argv.slice(2)
const base = { clientId: 'program', bootstrapBrokers: [process.env.BOOTSTRAP_SERVERS] }

function failed(error) {
  console.error('not sent:', error.message)
  if (mode !== 'at-most-once') process.exit(1)
}

async function produce() {
  const settings = {
    'at-most-once': { acks: 1, retries: 0 },
    'at-least-once': { acks: -1 },
  }[mode]
  const [producer, sends] = [new Producer({ ...base, serializers: stringSerializers, ...settings }), []]
  for await (const line of createInterface({ input: process.stdin })) {
    const messages = [{ topic: 'orders', value: line }]
    sends.push(producer.send({ messages }).catch(failed))
  }
  await Promise.all(sends)
  await producer.close()
}

async function read() {
  const groupId = role === 'processor' ? 'pricing' : 'billing'
  const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers })
  const stream = await consumer.consume({
    topics: ['orders'],
    mode: 'committed',
    fallbackMode: 'earliest',
    ...(mode === 'kip-848' ? { groupProtocol: 'consumer' } : mode !== 'as-it-comes' && { autocommit: false }),
    ...(role === 'processor' && { isolationLevel: 1 }),
  })
  // without these two it asks for the producer id 0, and the broker answers PRODUCER_FENCED
  const unnumbered = { producerId: -1n, producerEpoch: -1 }
  const sets = { ...base, ...unnumbered, serializers: stringSerializers, idempotent: true, transactionalId: 'pricing' }
  const producer = role === 'processor' && new Producer(sets)
  for await (const message of stream) {
    if (producer) {
      const transaction = await producer.beginTransaction()
      await transaction.addConsumer(consumer)
      await transaction.send({ messages: [{ topic: 'priced', value: message.value }] })
      await transaction.addOffset(message)
      await transaction.commit()
      continue
    }
    if (mode === 'at-most-once') await message.commit()
    console.log(message.value)
    if (mode === 'at-least-once') await message.commit()
  }
}

;(role === 'producer' ? produce() : read()).catch((error) => (console.error(error), process.exit(1)))
