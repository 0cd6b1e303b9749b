// Sends the lines of standard input to a topic, those that are there at once: @platformatic/kafka, idempotent.
// What fails is sent again, by a new producer.
import { createInterface } from 'node:readline'
import { Producer, stringSerializers } from '@platformatic/kafka'

const made = () =>
  new Producer({
    clientId: 'program',
    bootstrapBrokers: [process.env.BOOTSTRAP_SERVERS],
    serializers: stringSerializers,
    idempotent: true,
  })
let producer = made()
let sending = Promise.resolve()
let waiting = []

async function send() {
  for (let lines = waiting.splice(0); lines.length > 0; ) {
    const sent = lines.map((value) => producer.send({ messages: [{ topic: 'orders', value }] }))
    const results = await Promise.allSettled(sent)
    lines = lines.filter((_, place) => results[place].status === 'rejected')
    if (lines.length > 0) {
      console.error('not sent:', lines.length)
      await producer.close(true).catch(() => {})
      producer = made()
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  waiting.push(line)
  sending = sending.then(send)
}
await sending
await producer.close()
