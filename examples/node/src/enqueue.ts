// node dist/enqueue.js TYPE [PAYLOAD] [KEY]: stores a task and prints what became of it.
import { call, connect } from "./client.js";

const [type, payload = "{}", key] = process.argv.slice(2);
if (!type) {
  console.error("usage: node dist/enqueue.js TYPE [PAYLOAD] [KEY]");
  process.exit(2);
}
const client = connect();
try {
  const { id, created } = await call(client, "Enqueue", { type, payload, key });
  console.log(JSON.stringify({ id, created }));
} catch (error) {
  console.error(`not stored: ${(error as Error).message}`);
  process.exitCode = 1;
}
client.close();
