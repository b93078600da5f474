// pg-boss.
//
// Tuned: a queue that notifies, 4 workers that take 500 jobs at a time into one handler, a poll
// every half second. Defaults: `work(name, handler)`, one job at a time, a poll every 2 s.
import { database, handle, main, need, pause, slots, tuned } from './runtime.mjs';

const { PgBoss } = need('pg-boss');
const pg = need('pg');
const QUEUE = 'peers';
let boss;
let own;

function made(more) {
  const one = new PgBoss({ ...database, ...more });
  one.on('error', () => {});
  return one;
}

main({
  async setup() {
    const one = made({});
    await one.start();
    await one.createQueue(QUEUE, { notify: true });
    await one.stop({ graceful: false });
  },
  async open() {
    boss = made({ supervise: false, schedule: false, migrate: false });
    await boss.start();
    own = new pg.Client(database);
    await own.connect();
  },
  async enqueue(n) {
    await boss.send(QUEUE, { n });
  },
  async enqueueMany(numbers) {
    await boss.insert(QUEUE, numbers.map((n) => ({ data: { n } })));
  },
  async enqueueInTransaction(n, openSeconds, committing) {
    const db = { executeSql: (text, values) => own.query(text, values) };
    await own.query('begin');
    await boss.send(QUEUE, { n }, { db });
    await pause(openSeconds * 1000);
    committing();
    await own.query('commit');
  },
  async work() {
    boss = made({ max: 10, ...(tuned ? { useListenNotify: true } : {}) });
    await boss.start();
    const many = { localConcurrency: 4, batchSize: 500, burstWhenBatchFull: true };
    const one = { localConcurrency: slots, batchSize: 1, notifyPollingIntervalSeconds: 0.5 };
    const fast = { pollingIntervalSeconds: 0.5, ...(slots ? one : many) };
    await boss.work(QUEUE, tuned ? fast : {}, async (jobs) => {
      await Promise.all(jobs.map((job) => handle(job.data.n)));
    });
    return () => boss.stop({ graceful: true, timeout: 2000 });
  },
});
