// Makes a call with the tasks client from npm; reads an order on standard input, prints JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = async (name) => {
  const [scope, part, ...rest] = name.split("/");
  const folder = `${process.argv[2]}/node_modules/${scope}/${part}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const entry = about.exports[rest.length ? `./${rest.join("/")}` : "."];
  const file = typeof entry === "string" ? entry : (entry.import.default ?? entry.import);
  return import(pathToFileURL(`${folder}/${file}`));
};
const order = JSON.parse(readFileSync(0, "utf8"));
const clientInfo = { name: "node-tasks", version: "1" };
const clientCapabilities = order.answer ? { elicitation: { form: {} } } : {};
const protocolVersion = "2026-07-28";

const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { createTaskSessionFromClient } = await load("@modelcontextprotocol/ext-tasks/client");

let last = 0;
const seen = [];
// The client library sends only requests that it knows: its host sends those about tasks.
async function rawDispatch(request, options) {
  const params = request.params;
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": protocolVersion,
    "mcp-method": request.method,
    "mcp-name": params.taskId ?? params.name,
    ...(order.token ? { authorization: `Bearer ${order.token}` } : {}),
  };
  last += 1;
  const body = JSON.stringify({ jsonrpc: "2.0", id: `raw-${last}`, ...request });
  const reply = await fetch(order.url, { method: "POST", headers, body, signal: options?.signal });
  const text = await reply.text();
  const lines = text.split("\n").filter((line) => line.startsWith("data:"));
  const message = JSON.parse(lines.length ? lines.at(-1).slice(5) : text);
  seen.push({ method: request.method, ...(message.result ?? { error: message.error }) });
  return message.error
    ? { kind: "error", error: message.error }
    : { kind: "result", result: message.result };
}

const client = new Client(clientInfo, { versionNegotiation: { mode: { pin: protocolVersion } } });
await client.connect(new StreamableHTTPClientTransport(new URL(order.url)));
const session = createTaskSessionFromClient(client, {
  endpointId: "skillpouch",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: order.answer
    ? async (request) => {
        seen.push({ form: request.params });
        return order.answer;
      }
    : undefined,
});
const execution = await session.callTool(order.tool, order.arguments);
const told = { kind: execution.kind, taskId: execution.handle?.taskId };
if (order.cancel) await execution.cancel();
const { outcome } = await execution.settle();
await session.close();
await client.close();
process.stdout.write(JSON.stringify({ ...told, status: outcome.status, result: outcome.result, seen }));
