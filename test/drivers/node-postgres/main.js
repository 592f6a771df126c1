// SPDX-License-Identifier: ISC
// node-postgres. The argument is "pipeline" for its pipeline mode, or "plain".

import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { from, to } from 'pg-copy-streams'
import {
  LINES, PAYLOADS, askEachText, askTogether, chosen, collect, mustFail, numbers, run, same
} from './common.js'

// A text's name must be the same each time: node-postgres has the caller give it.
const named = new Map()

async function ask (client, text, ...values) {
  if (!named.has(text)) named.set(text, `statement_${named.size}`)
  const got = await client.query({ name: named.get(text), text, values, rowMode: 'array' })
  return got.rows.map((row) => row[0])
}

const divide = async (client, by) => (await ask(client, 'SELECT 10 / $1::int', by))[0]
const insert = (client, who, number) =>
  ask(client, 'INSERT INTO driver_rows VALUES ($1, $2)', who, number)
const clear = (client, who) => ask(client, 'DELETE FROM driver_rows WHERE who = $1', who)
const count = async (client, who, wanted) =>
  same(await ask(client, 'SELECT count(*)::int FROM driver_rows WHERE who = $1', who), [wanted])

async function simple (client) {
  const got = await client.query('SELECT 1 AS a; SELECT 2 AS a')
  same(got.map((result) => result.rows[0].a), [1, 2])
  same((await client.query('SELECT $1::int AS a', [3])).rows[0].a, 3)
}

async function rollback (client, who) {
  await client.query('BEGIN')
  await insert(client, who, 1)
  await count(client, who, 1)
  await client.query('ROLLBACK')
  await count(client, who, 0)
  await client.query('BEGIN')
  await insert(client, who, 2)
  await client.query('COMMIT')
  await count(client, who, 1)
  await clear(client, who)
}

async function recovery (client) {
  await mustFail('22012', divide(client, 0))
  await mustFail('42P01', ask(client, 'SELECT $1::int FROM nowhere', 1))
  same(await divide(client, 5), 2)
  await client.query('BEGIN; SAVEPOINT here')
  await mustFail('22012', divide(client, 0))
  await mustFail('25P02', divide(client, 1))
  await client.query('ROLLBACK TO here')
  same(await divide(client, 2), 5)
  await client.query('ROLLBACK')
  same(await divide(client, 2), 5)
}

async function copy (client, who) {
  const lines = numbers(LINES).map((number) => `${who}\t${number}\n`)
  await pipeline(Readable.from(lines), client.query(from('COPY driver_rows FROM STDIN')))
  const sql = `COPY (SELECT number FROM driver_rows WHERE who = '${who}' ORDER BY 1) TO STDOUT`
  const out = await client.query(to(sql)).toArray()
  same(Buffer.concat(out).toString(), numbers(LINES).join('\n') + '\n')
  await clear(client, who)
}

async function cursor (client) {
  await client.query('BEGIN')
  const pieces = client.query(new Cursor('SELECT generate_series(1, $1::int) AS a', [100]))
  const got = []
  for (let rows; (rows = await pieces.read(10)).length;) got.push(...rows.map((row) => row.a))
  same(got, numbers(100).map((number) => number + 1))
  await pieces.close()
  await client.query('COMMIT')
}

// A request that comes before its statement has no effect, so it is sent until the end.
async function cancel (client) {
  let query
  const asleep = new Promise((resolve, reject) => {
    query = new pg.Query('SELECT pg_sleep($1)', [60],
      (error) => error ? reject(error) : resolve())
    client.query(query)
  })
  let isOver = false
  // The first ones may come too early. Each ends before the next one, and before another statement.
  async function sendCancels () {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      const canceller = new pg.Client()
      const ended = new Promise((resolve) => canceller.connection.once('end', resolve))
      if (isOver) break
      canceller.cancel(client, query)
      await ended
    }
  }
  const canceled = sendCancels()
  try {
    await mustFail('57014', asleep)
  } finally {
    isOver = true
    await canceled
  }
  same(await divide(client, 5), 2)
}

async function notices (client, who) {
  const told = []
  const listener = (notice) => told.push(notice.message)
  client.on('notice', listener)
  await client.query(`DO $$ BEGIN RAISE NOTICE '${who}'; END $$`)
  client.off('notice', listener)
  same(told, [who])
}

const execute = async (client, text) =>
  (await client.query({ text, rowMode: 'array' })).rows[0]?.[0]

async function listen (client, who) {
  const channel = `channel_${who.at(-1)}`
  const told = collect()
  const listener = (notification) => told.push(notification.payload)
  client.on('notification', listener)
  await client.query(`LISTEN ${channel}`)
  const other = await connect()
  for (const payload of PAYLOADS.slice(0, -1)) {
    await other.query('SELECT pg_notify($1, $2)', [channel, payload])
  }
  await other.end()
  await client.query(`NOTIFY ${channel}, '${PAYLOADS.at(-1)}'`)
  await told.all
  await client.query(`UNLISTEN ${channel}`)
  await client.query(`NOTIFY ${channel}, 'nobody listens'`)
  client.off('notification', listener)
  same(told.got, PAYLOADS)
}

const isPipelining = process.argv[2] === 'pipeline'
const prepared = askEachText(ask)
const batch = askTogether(ask, divide)
// What takes the connection for itself is not for the pipeline mode.
const scenarios = isPipelining
  ? { simple, prepared, rollback, recovery, batch, notices }
  : { simple, prepared, rollback, recovery, copy, batch, cursor, cancel, notices }

async function connect () {
  const client = new pg.Client({ pipeline: isPipelining })
  await client.connect()
  return client
}

await run(chosen(scenarios, execute, listen), connect, (client) => client.end())
