// SPDX-License-Identifier: ISC
// node-postgres while hosts fail. The argument is "pipeline" for its pipeline mode, or "plain".

import pg from 'pg'
import { run } from './failover.js'

const isPipelining = process.argv[2] === 'pipeline'
const INSERT = { name: 'insert', text: 'INSERT INTO written VALUES ($1)' }

const autocommit = (client) =>
  client.connection.query({ ...INSERT, values: [client.newRow()] })

const simple = (client) =>
  client.connection.query(`INSERT INTO written VALUES ('${client.newRow()}')`)

async function transaction (client) {
  client.stage = 'begin'
  await client.connection.query('BEGIN')
  client.stage = 'work'
  await autocommit(client)
  await simple(client)
  client.stage = 'commit'
  await client.connection.query('COMMIT')
}

// All at once, each with a Sync of its own. Without pipeline mode they would be one by one.
async function together (client) {
  const got = await Promise.allSettled([client.connection.query('BEGIN'), autocommit(client),
    autocommit(client), client.connection.query('COMMIT')])
  const failed = got.find((one) => one.status === 'rejected')
  if (failed) throw failed.reason
}

async function connect () {
  const client = new pg.Client({ pipeline: isPipelining })
  client.on('error', () => {}) // of a connection without a statement; the next one fails
  await client.connect()
  return client
}

await run({ autocommit, simple, transaction, ...(isPipelining && { together }) }, connect)
