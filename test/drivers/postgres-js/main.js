// SPDX-License-Identifier: ISC
// postgres.js. It prepares and pipelines whatever it runs, unless it is told not to.

import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import postgres from 'postgres'

const CONNECTIONS = 6
const ROUNDS = 3
const TEXTS = 8 // more than a server may know when the limit is small
const LINES = 200
const numbers = (count) => Array.from({ length: count }, (_, i) => i)

function same (got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    throw new Error(`${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`)
  }
}

async function mustFail (code, promise) {
  const error = await promise.then(() => new Error(`no error ${code}`), (error) => error)
  if (error.code !== code) throw error
}

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

async function prepared (sql) {
  for (const again of [0, 1, 0, 1]) {
    for (const text of numbers(TEXTS)) {
      same(await ask(sql, `SELECT $1::int + ${text}`, again), [again + text])
    }
  }
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

// All of these are under way at once.
async function batch (sql) {
  const by = [-3, -2, -1, 0, 1, 2, 5]
  const got = await Promise.allSettled(by.map((by) => divide(sql, by)))
  same(got.map((one) => one.value ?? one.reason.code), [-3, -5, -10, '22012', 10, 5, 2])
  same(await Promise.all(numbers(TEXTS).map((text) => ask(sql, `SELECT $1::int * ${text}`, 2))),
    numbers(TEXTS).map((text) => [2 * text]))
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

const scenarios = [simple, prepared, rollback, recovery, copy, batch, cursor, cancel, notices]

async function work (number) {
  let name = 'connect'
  try {
    const told = []
    const sql = postgres({ max: 1, onnotice: (notice) => told.push(notice.message) })
    sql.told = told
    for (let i = 0; i < ROUNDS * scenarios.length; i++) {
      const scenario = scenarios[(i + number) % scenarios.length]
      name = scenario.name
      await scenario(sql, `connection ${number}`)
      console.log(`ok ${name}`)
    }
    name = 'leave'
    await sql.end()
  } catch (error) {
    console.log(`failed ${name} connection ${number}: ${String(error.stack).replaceAll('\n', ' ')}`)
  }
}

await Promise.all(numbers(CONNECTIONS).map(work))
process.exit(0)
