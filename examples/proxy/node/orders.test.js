import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { place, read } from './orders.js';

const { KAFKA, LOSTACK_PROXY, LOSTACK_PROXY_SECRET } = process.env;

// Sends a request to the API of a `lostack proxy` that stands already; what is no success fails.
async function ask(method, path, body = {}) {
  const response = await fetch(LOSTACK_PROXY + path, {
    method,
    headers: { Authorization: `Bearer ${LOSTACK_PROXY_SECRET}` },
    body: method === 'GET' ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  assert.ok(response.ok, answer.error);
  return answer;
}

let proxy;

// With Testcontainers: the container's broker.
before(async () => {
  proxy = await ask('POST', '/routes', { upstream: KAFKA });
});

for (const { idempotent, wanted } of [
  { idempotent: true, wanted: [16, 17, 18] },
  { idempotent: false, wanted: [16, 17, 17, 18] },
]) {
  test(`the answer for order 17 is lost, idempotent: ${idempotent}`, { timeout: 120_000 }, async () => {
    const topic = `orders-${randomUUID()}`;
    const fault = await ask('POST', '/faults', {
      do: 'lose', api: 'Produce', answer: true, topic, record: { order: 17 }, route: proxy.route,
    });
    await place(proxy.bootstrap, topic, [16, 17, 18], { idempotent });
    assert.deepEqual(await read(proxy.bootstrap, topic, 18), wanted);
    await ask('DELETE', `/faults/${fault.id}`); // fails if the fault has not struck
  });
}
