// SPDX-License-Identifier: ISC
// postgres.js. It prepares and pipelines whatever it runs, unless it is told not to.

import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import postgres from 'postgres'
import {
  LINES, PAYLOADS, askEachText, askTogether, chosen, collect, mustFail, numbers, run, same
} from './common.js'

const ask = async (sql, text, ...values) =>
  (await sql.unsafe(text, values, { prepare: true }).values()).map((row) => row[0])
const divide = async (sql, by) => (await sql`SELECT 10 / ${by}::int AS a`)[0].a
const insert = (sql, who, number) => sql`INSERT INTO driver_rows VALUES (${who}, ${number})`
const clear = (sql, who) => sql`DELETE FROM driver_rows WHERE who = ${who}`
const count = async (sql, who, wanted) =>
  same((await sql`SELECT count(*)::int AS a FROM driver_rows WHERE who = ${who}`)[0].a, wanted)

async function simple (sql) {
  const got = await sql`SELECT 1 AS a; SELECT 2 AS a`.simple()
  same(got.map((rows) => rows[0].a), [1, 2])
}

async function rollback (sql, who) {
  const undone = new Error('undone')
  const error = await sql.begin(async (sql) => {
    await insert(sql, who, 1)
    await count(sql, who, 1)
    throw undone
  }).catch((error) => error)
  if (error !== undone) throw error
  await count(sql, who, 0)
  await sql.begin((sql) => insert(sql, who, 2))
  await count(sql, who, 1)
  await clear(sql, who)
}

async function recovery (sql) {
  await mustFail('22012', divide(sql, 0))
  await mustFail('42P01', ask(sql, 'SELECT $1::int FROM nowhere', 1))
  same(await divide(sql, 5), 2)
  await sql.begin(async (sql) => {
    await mustFail('22012', sql.savepoint((sql) => divide(sql, 0)))
    same(await divide(sql, 2), 5)
  })
  await mustFail('22012', sql.begin(async (sql) => {
    await mustFail('22012', divide(sql, 0))
    await mustFail('25P02', divide(sql, 1))
  }))
  same(await divide(sql, 2), 5)
}

async function copy (sql, who) {
  const lines = numbers(LINES).map((number) => `${who}\t${number}\n`)
  await pipeline(Readable.from(lines), await sql`COPY driver_rows FROM STDIN`.writable())
  const text = `COPY (SELECT number FROM driver_rows WHERE who = '${who}' ORDER BY 1) TO STDOUT`
  const out = await (await sql.unsafe(text).readable()).toArray()
  same(Buffer.concat(out).toString(), numbers(LINES).join('\n') + '\n')
  await clear(sql, who)
}

async function cursor (sql) {
  const got = []
  for await (const rows of sql`SELECT generate_series(1, ${100}::int) AS a`.cursor(10)) {
    got.push(...rows.map((row) => row.a))
  }
  same(got, numbers(100).map((number) => number + 1))
}

// It sends one request only, and one that comes before its statement has no effect.
async function cancel (sql) {
  let error
  for (let tries = 1; tries < 20 && !error; tries++) {
    const asleep = sql`SELECT pg_sleep(${1})`
    asleep.execute()
    setTimeout(() => asleep.cancel(), tries * 20)
    error = await asleep.then(() => null, (error) => error)
  }
  same(error?.code, '57014')
  same(await divide(sql, 5), 2)
}

async function notices (sql, who) {
  sql.told.length = 0
  await sql.unsafe(`DO $$ BEGIN RAISE NOTICE '${who}'; END $$`)
  same(sql.told, [who])
}

const execute = async (sql, text) => (await sql.unsafe(text).values())[0]?.[0]

// It listens with a connection that it opens for that, and keeps.
async function listen (sql, who) {
  const channel = `channel_${who.at(-1)}`
  const told = collect()
  const { unlisten } = await sql.listen(channel, told.push)
  for (const payload of PAYLOADS) await sql.notify(channel, payload)
  await told.all
  await unlisten()
  await sql.notify(channel, 'nobody listens')
  same(told.got, PAYLOADS)
}

const prepared = askEachText(ask)
const batch = askTogether(ask, divide)
const scenarios = { simple, prepared, rollback, recovery, copy, batch, cursor, cancel, notices }

async function connect () {
  const told = []
  const sql = postgres({ max: 1, onnotice: (notice) => told.push(notice.message) })
  sql.told = told
  return sql
}

await run(chosen(scenarios, execute, listen), connect, (sql) => sql.end())
