// graphile-worker.
//
// Tuned: what its own performance test sets: 24 jobs at once, a local queue of 500, completions in
// batches. Defaults: one job at a time.
import { database, handle, main, need, pause, slots, tuned } from './runtime.mjs';

const { Logger, makeWorkerUtils, run, runMigrations } = need('graphile-worker');
const pg = need('pg');
const logger = new Logger(() => () => {});
const taskList = { handle: (payload) => handle(payload.n) };
const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
let utils;
let own;

function pool(max) {
  const made = new pg.Pool({ ...database, max });
  made.on('error', () => {});
  made.on('connect', (client) => client.on('error', () => {}));
  return made;
}

main({
  async setup() {
    await runMigrations({ pgPool: pool(2), logger });
  },
  async open() {
    utils = await makeWorkerUtils({ pgPool: pool(10), logger });
    own = await pool(1).connect();
  },
  async enqueue(n) {
    await utils.addJob('handle', { n });
  },
  async enqueueMany(numbers) {
    await utils.addJobs(numbers.map((n) => ({ identifier: 'handle', payload: { n } })));
  },
  async enqueueInTransaction(n, openSeconds, committing) {
    await own.query('begin');
    await own.query("select graphile_worker.add_job('handle', $1::json)", [{ n }]);
    await pause(openSeconds * 1000);
    committing();
    await own.query('commit');
  },
  async work() {
    const fast = { concurrentJobs: slots || 24, ...(slots ? {} : batched) };
    const preset = { worker: tuned ? fast : {} };
    const pgPool = pool(tuned ? 26 : 10);
    const runner = await run({ pgPool, taskList, logger, noHandleSignals: true, preset });
    return () => runner.stop();
  },
});
