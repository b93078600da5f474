// A typed client of a Wherry server, from its .proto files.
//
// WHERRY_SERVER   host:port, 127.0.0.1:50051 if not set
// WHERRY_TOKEN    sent with every call, if set
// WHERRY_CA       a file with the certificates to trust; TLS is used if it is set
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as grpc from "@grpc/grpc-js";
import { loadSync, type MethodDefinition } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "./wire/task_queue";
import type { TaskQueueClient, TaskQueueDefinition } from "./wire/wherry/v1/TaskQueue";

const protos = join(dirname(fileURLToPath(import.meta.url)), "../../../proto");
const definition = loadSync("wherry/v1/task_queue.proto", {
  includeDirs: [protos],
  keepCase: true,
  // Ids are 64 bits wide, more than a number of JavaScript can hold.
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { wherry } = grpc.loadPackageDefinition(definition) as unknown as ProtoGrpcType;

export function connect(): TaskQueueClient {
  const address = process.env.WHERRY_SERVER ?? "127.0.0.1:50051";
  const ca = process.env.WHERRY_CA;
  const credentials = ca
    ? grpc.credentials.createSsl(readFileSync(ca))
    : grpc.credentials.createInsecure();
  return new wherry.v1.TaskQueue(address, credentials, {
    "grpc.keepalive_time_ms": 20_000,
    "grpc.max_reconnect_backoff_ms": 2_000,
  });
}

export function metadata(): grpc.Metadata {
  const made = new grpc.Metadata();
  const token = process.env.WHERRY_TOKEN;
  if (token) made.set("authorization", `Bearer ${token}`);
  return made;
}

// The names of the rpcs: the definition has an index signature too, which would take any string.
type Rpc = keyof {
  [R in keyof TaskQueueDefinition as string extends R ? never : number extends R ? never : R]: R;
};
type Question<R extends Rpc> =
  TaskQueueDefinition[R] extends MethodDefinition<infer Q, any, any, any> ? Q : never;
type Answer<R extends Rpc> =
  TaskQueueDefinition[R] extends MethodDefinition<any, any, any, infer A> ? A : never;

// One call as a promise; with a signal it ends when the signal comes.
export function call<R extends Rpc>(
  client: TaskQueueClient,
  rpc: R,
  question: Question<R>,
  { seconds = 10, signal }: { seconds?: number; signal?: AbortSignal } = {},
): Promise<Answer<R>> {
  const { path, requestSerialize, responseDeserialize } = wherry.v1.TaskQueue.service[rpc]!;
  return new Promise((resolve, reject) => {
    const running = client.makeUnaryRequest<Question<R>, Answer<R>>(
      path,
      requestSerialize as (question: Question<R>) => Buffer,
      responseDeserialize as unknown as (data: Buffer) => Answer<R>,
      question,
      metadata(),
      { deadline: Date.now() + seconds * 1000 },
      (error, answer) => {
        signal?.removeEventListener("abort", cancel);
        if (error) reject(error);
        else resolve(answer!);
      },
    );
    const cancel = () => running.cancel();
    signal?.addEventListener("abort", cancel);
  });
}

export const seconds = (n: number) => ({
  seconds: Math.trunc(n),
  nanos: Math.round((n % 1) * 1e9),
});
