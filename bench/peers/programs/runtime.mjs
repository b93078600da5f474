// The Node twin of runtime.py: the same environment, the same commands, the same answers.
//
// Node cannot map a file, so handlers note what they ran in memory, and it goes into a journal of
// this process's own every 5 ms: `Marks.absorb` in marks.py reads it.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const env = process.env;
export const tasks = +(env.PEER_TASKS || 0);
export const tuned = (env.PEER_SETTINGS || 'tuned') === 'tuned';
export const slots = +(env.PEER_SLOTS || 0);
const sleeps = env.PEER_KIND === 'sleep';
export const database = {
  host: env.PEER_HOST,
  port: +(env.PEER_PORT || 5432),
  user: env.PEER_USER,
  password: env.PEER_PASSWORD || undefined,
  database: env.PEER_DATABASE,
};
// Packages are in a folder of their own, which this file is not in.
export const need = createRequire(path.join(env.PEER_PACKAGES, 'index.js'));
export const now = () => Number(process.hrtime.bigint()) / 1e9;
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const RECORD = 12;
const buffer = Buffer.alloc(RECORD * 65536);
let filled = 0;
let journal;

function write() {
  if (!filled) return;
  journal ??= fs.openSync(path.join(path.dirname(env.PEER_MARKS), `journal.${process.pid}`), 'a');
  fs.writeSync(journal, buffer, 0, filled);
  filled = 0;
}

function hit(n) {
  if (filled === buffer.length) write();
  buffer.writeUInt32LE(n, filled);
  buffer.writeDoubleLE(now(), filled + 4);
  filled += RECORD;
}

const milliseconds = (n) => 50 + 150 * ((n * 2654435761) % 2 ** 32) / 2 ** 32;

export async function handle(n) {
  hit(n);
  if (sleeps) await pause(milliseconds(n));
}

const range = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);

function shown() {
  const marks = fs.openSync(env.PEER_MARKS, 'r');
  const first = Buffer.alloc(8);
  fs.readSync(marks, first, 0, 8, 0);
  fs.closeSync(marks);
  return Number(first.readBigUInt64LE());
}

const producers = {
  async enqueue(program, seconds) {
    await program.enqueue(0);
    let made = 1;
    const began = now();
    while (made < tasks && now() - began < seconds) await program.enqueue(made++);
    return { made: made - 1, seconds: now() - began };
  },
  async fill(program, wanted) {
    const began = now();
    for (let first = 0; first < wanted; first += 1000) {
      await program.enqueueMany(range(first, Math.min(wanted, first + 1000)));
    }
    return { made: wanted, seconds: now() - began };
  },
  async steady(program, rate, seconds, openSeconds = 0) {
    const sent = [];
    const stamp = () => sent.push(now());
    const began = now() + 0.05;
    for (let n = 0; n < Math.floor(rate * seconds); n++) {
      const left = began + n / rate - now();
      if (left > 0) await pause(left * 1000);
      if (openSeconds) await program.enqueueInTransaction(n, openSeconds, stamp);
      else {
        stamp();
        await program.enqueue(n);
      }
    }
    return { made: sent.length, seconds: now() - began, sent };
  },
  async feed(program, seconds, ahead, batch) {
    let made = 0;
    const began = now();
    while (now() - began < seconds && made + batch <= tasks) {
      if (made - shown() < ahead) {
        await program.enqueueMany(range(made, made + batch));
        made += batch;
      } else await pause(5);
    }
    return { made, seconds: now() - began, began };
  },
};

export async function main(program) {
  const [act, ...given] = process.argv.slice(2);
  if (act === 'setup') {
    await program.setup();
    process.exit(0);
  }
  if (act === 'work') {
    setInterval(write, 5);
    const stop = await program.work();
    const end = async () => {
      await Promise.race([stop().catch(() => {}), pause(3000)]);
      write();
      process.exit(0);
    };
    process.on('SIGTERM', end);
    process.on('SIGINT', end);
    return;
  }
  await program.open();
  const before = process.cpuUsage();
  const told = await producers[act](program, ...given.map(Number));
  const spent = process.cpuUsage(before);
  console.log(JSON.stringify({ cpu: (spent.user + spent.system) / 1e6, ...told }));
  process.exit(0);
}
