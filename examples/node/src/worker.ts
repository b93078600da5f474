// node dist/worker.js: runs handlers until SIGTERM or Ctrl-C, a few tasks at a time.
//
// What any worker has to do: ask for no more than it can start, beat while a handler runs, report
// once, and take "lost" for an answer. A handler may run twice, so it has to be idempotent.
import { hostname } from "node:os";
import { status, type ServiceError } from "@grpc/grpc-js";
import { call, connect, seconds } from "./client.js";
import type { LeasedTask__Output } from "./wire/wherry/v1/LeasedTask";

type Task = LeasedTask__Output;
type Handler = (payload: any, task: Task, signal: AbortSignal) => Promise<unknown>;

const handlers: Record<string, Handler> = {
  "node.greet": async ({ name }) => `hello ${name}`,
  // The payload says at which attempt it works, so that a retry can be seen.
  "node.flaky": async ({ works_at }, { attempt }) => {
    if (attempt < works_at) throw new Error(`attempt ${attempt} is too early`);
    return attempt;
  },
};

const SLOTS = 4;
const LEASE_SECONDS = 15;
const me = `node-${hostname()}-${process.pid}`;
const client = connect();
const stopping = new AbortController();
const running = new Set<Promise<void>>();

async function run(task: Task): Promise<void> {
  const { lease } = task;
  const ended = new AbortController();
  const beating = setInterval(() => beat(lease, ended), (LEASE_SECONDS * 1000) / 3);
  try {
    const result = await handlers[task.type]!(JSON.parse(task.payload), task, ended.signal);
    const text = JSON.stringify(result ?? null);
    await report(() => call(client, "Complete", { lease, result: text }));
    console.log(`${task.id} ${task.type}: done in attempt ${task.attempt}`);
  } catch (raised) {
    const { name, message, stack } = raised as Error;
    console.log(`${task.id} ${task.type}: failed in attempt ${task.attempt}: ${message}`);
    const error = { type: name, message, traceback: stack ?? "" };
    await report(() => call(client, "Fail", { lease, error }));
  } finally {
    clearInterval(beating);
  }
}

async function beat(lease: string, ended: AbortController): Promise<void> {
  try {
    const extend_by = seconds(LEASE_SECONDS);
    const { beats } = await call(client, "Heartbeat", { worker_id: me, leases: [lease], extend_by });
    const answer = beats[0]?.answer;
    if (answer === "REPORTED_LOST" || answer === "REPORTED_CANCEL_REQUESTED") ended.abort();
  } catch (error) {
    console.error(`heartbeat: ${(error as Error).message}`);
  }
}

// A report may be sent again: the lease that it names makes the second one harmless.
async function report(send: () => Promise<unknown>): Promise<void> {
  const again = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.ABORTED];
  for (let tries = 0; ; tries++) {
    try {
      await send();
      return;
    } catch (error) {
      const { code, message } = error as ServiceError;
      if (!again.includes(code)) {
        // Somebody else has the task by now, or it can never be stored: its lease runs out.
        console.error(`report: ${message}`);
        return;
      }
      await pause(Math.min(2000, 100 * 2 ** tries));
    }
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => stopping.abort());

while (!stopping.signal.aborted) {
  if (running.size >= SLOTS) {
    await Promise.race(running);
    continue;
  }
  try {
    const request = {
      worker_id: me,
      queues: ["default"],
      types: Object.keys(handlers),
      max_tasks: SLOTS - running.size,
      lease_duration: seconds(LEASE_SECONDS),
      wait: seconds(20),
    };
    const options = { seconds: 30, signal: stopping.signal };
    const { tasks, directive } = await call(client, "Lease", request, options);
    if (directive === "DIRECTIVE_STOP") stopping.abort();
    for (const task of tasks) {
      const promise: Promise<void> = run(task).finally(() => running.delete(promise));
      running.add(promise);
    }
  } catch (error) {
    if (stopping.signal.aborted) break;
    console.error(`lease: ${(error as Error).message}`);
    await pause(500 + Math.random() * 500);
  }
}
await Promise.all(running);
await call(client, "LeaveWorker", { worker_id: me }).catch(() => undefined);
client.close();
