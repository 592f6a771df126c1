// SPDX-License-Identifier: ISC
// postgres.js while hosts fail. It connects again by itself.
//
// Its version 3.4.9 may write to a connection that it has closed: an exception that nobody can
// catch, and the statement never ends (https://github.com/porsager/postgres/issues/1154).

import postgres from 'postgres'
import { run } from './failover.js'

const insert = (sql, client) => sql`INSERT INTO written VALUES (${client.newRow()})`
const autocommit = (client) => insert(client.connection, client)
const simple = (client) =>
  client.connection.unsafe(`INSERT INTO written VALUES ('${client.newRow()}')`)

async function transaction (client) {
  client.stage = 'begin'
  await client.connection.begin(async (sql) => {
    client.stage = 'work'
    await insert(sql, client)
    await insert(sql, client)
    client.stage = 'commit'
  })
}

// It sends BEGIN and what a function returns together.
async function together (client) {
  await client.connection.begin((sql) => [insert(sql, client), insert(sql, client)])
}

const GIVE_UP_MS = 10000
const open = new Set()
process.on('uncaughtException', (error) => {
  for (const giveUp of open) setTimeout(giveUp, GIVE_UP_MS, error)
})

const guarded = (step) => (client) => new Promise((resolve, reject) => {
  open.add(reject)
  step(client).then(resolve, reject).finally(() => open.delete(reject))
})

const steps = Object.entries({ autocommit, simple, transaction, together })
  .map(([kind, step]) => [kind, guarded(async (client) => step(client))])
await run(Object.fromEntries(steps),
  async () => postgres({ max: 1, onnotice: () => {} }))
