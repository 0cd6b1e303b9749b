// Sends the lines of standard input to a topic, those that are there at once: kafkajs, idempotent.
// What fails is sent again, by a new producer.
const { Kafka } = require('kafkajs')
const { createInterface } = require('readline')

const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP_SERVERS] })
const made = () => kafka.producer({ idempotent: true, retry: { retries: 3 } })
let producer = made()
let sending = producer.connect()
let waiting = []

async function send() {
  for (let lines = waiting.splice(0); lines.length > 0; ) {
    const sent = lines.map((value) => producer.send({ topic: 'orders', messages: [{ value }] }))
    const results = await Promise.allSettled(sent)
    lines = lines.filter((_, place) => results[place].status === 'rejected')
    if (lines.length > 0) {
      console.error('not sent:', lines.length)
      await producer.disconnect()
      producer = made()
      await producer.connect()
    }
  }
}

async function run() {
  for await (const line of createInterface({ input: process.stdin })) {
    waiting.push(line)
    sending = sending.then(send)
  }
  await sending
  await producer.disconnect()
}

run().catch((error) => (console.error(error), process.exit(1)))
