// SPDX-License-Identifier: ISC
// What the programs of the drivers of Node.js share; it is copied beside each main.js.

import { readFileSync } from 'node:fs'

const CONNECTIONS = 6
const ROUNDS = 3
export const TEXTS = 8 // more than a server may know when the limit is small
export const LINES = 200
export const numbers = (count) => Array.from({ length: count }, (_, i) => i)

export function same (got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    throw new Error(`${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`)
  }
}

export async function mustFail (code, promise) {
  const error = await promise.then(() => new Error(`no error ${code}`), (error) => error)
  if (error.code !== code) throw error
}

// ask(connection, text, ...values) gives the first column of a prepared statement's rows.
export const askEachText = (ask) => async (connection) => {
  for (const again of [0, 1, 0, 1]) {
    for (const text of numbers(TEXTS)) {
      same(await ask(connection, `SELECT $1::int + ${text}`, again), [again + text])
    }
  }
}

// All at once, or one by one if that is how the driver is told to do it.
export const askTogether = (ask, divide) => async (connection) => {
  const by = [-3, -2, -1, 0, 1, 2, 5]
  const got = await Promise.allSettled(by.map((by) => divide(connection, by)))
  same(got.map((one) => one.value ?? one.reason.code), [-3, -5, -10, '22012', 10, 5, 2])
  same(await Promise.all(numbers(TEXTS)
    .map((text) => ask(connection, `SELECT $1::int * ${text}`, 2))),
  numbers(TEXTS).map((text) => [2 * text]))
}

async function follow (steps, execute, connection, who) {
  for (const [statement, result] of steps) {
    let got
    try {
      got = await execute(connection, statement.replaceAll('{n}', who.at(-1)))
    } catch (error) {
      if (result !== '*') throw new Error(`${statement}: ${error}`)
      continue
    }
    if (result !== undefined && result !== '*') {
      same([statement, got], [statement, result.replaceAll('{n}', who.at(-1))])
    }
  }
}

// The scenarios of session.txt, and listen. execute(connection, statement) gives the first value.
function sessionScenarios (execute, listen) {
  const scenarios = {}
  for (const line of readFileSync('session.txt', 'utf8').split('\n')) {
    if (!line || line.startsWith('#')) continue
    const [name, ...step] = line.split('\t')
    scenarios[name] ??= []
    scenarios[name].push(step)
  }
  const follows = Object.entries(scenarios).map(([name, steps]) =>
    [name, (connection, who) => follow(steps, execute, connection, who)])
  return { ...Object.fromEntries(follows), listen }
}

export const chosen = (plain, execute, listen) =>
  process.argv[3] === 'session' ? sessionScenarios(execute, listen) : plain

// push() adds what has come; all becomes a list when there are so many as there are PAYLOADS.
export const PAYLOADS = ['0', '1', '2', 'own']
export function collect () {
  const got = []
  let done
  const all = new Promise((resolve) => { done = resolve })
  const push = (payload) => {
    got.push(payload)
    if (got.length === PAYLOADS.length) done(got)
  }
  return { push, all, got }
}

// Each connection goes through all scenarios, and begins with another one than its neighbour.
async function work (number, scenarios, connect, leave) {
  const names = Object.keys(scenarios)
  let name = 'connect'
  try {
    const connection = await connect()
    for (let i = 0; i < ROUNDS * names.length; i++) {
      name = names[(i + number) % names.length]
      await scenarios[name](connection, `connection ${number}`)
      console.log(`ok ${name}`)
    }
    name = 'leave'
    await leave(connection)
  } catch (error) {
    console.log(`failed ${name} connection ${number}: ${String(error.stack).replaceAll('\n', ' ')}`)
  }
}

// scenarios: by name, each is called with the connection and a name of its own.
export async function run (scenarios, connect, leave) {
  await Promise.all(numbers(CONNECTIONS).map((number) => work(number, scenarios, connect, leave)))
  process.exit(0)
}
