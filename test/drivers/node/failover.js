// SPDX-License-Identifier: ISC
// What the programs of Node.js that write while hosts fail share: see python/failover.py. It is
// copied beside each of them.

import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'

const CLIENTS = 2 // of each kind
const PAUSE_MS = 5

let isOver = false

class Client {
  rows = []
  count = 0
  stage = 'connect'

  constructor (kind, number) {
    this.kind = kind
    this.name = `${process.env.PGAPPNAME}/${kind}/${number}`
  }

  newRow () {
    this.rows.push(`${this.name}/${++this.count}`)
    return this.rows.at(-1)
  }

  async once (step, connect) {
    this.rows = []
    this.stage = 'connect'
    try {
      this.connection ??= await connect()
      this.stage = 'work'
      await step(this)
      console.log(['ok', this.kind, this.rows.join(' ')].join('\t'))
    } catch (error) {
      const words = String(error).replaceAll(/[\n\t]/g, ' ')
      console.log(['failed', this.kind, this.stage, error.code ?? '-', words,
        this.rows.join(' ')].join('\t'))
      this.connection = null
    }
  }

  async run (step, connect) {
    while (!isOver) {
      await this.once(step, connect)
      await pause(PAUSE_MS)
    }
  }
}

// steps: by kind, each is called with a client.
export async function run (steps, connect) {
  const ends = Object.entries(steps).flatMap(([kind, step]) => Array.from(
    { length: CLIENTS }, (_, number) => new Client(kind, number).run(step, connect)))
  process.stdin.resume()
  await once(process.stdin, 'end')
  isOver = true
  await Promise.all(ends)
  process.exit(0)
}
