// Lists and calls tools with a client from npm; reads an order on standard input, prints JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/node_modules/`));
const order = JSON.parse(readFileSync(0, "utf8"));
const about = { name: "node-test", version: "1" };

const load = (name) => require(name);

function parts() {
  if (order.client === "sdk") {
    return {
      client: new (load("@modelcontextprotocol/sdk/client/index.js").Client)(about),
      Stdio: load("@modelcontextprotocol/sdk/client/stdio.js").StdioClientTransport,
      Http: load("@modelcontextprotocol/sdk/client/streamableHttp.js").StreamableHTTPClientTransport,
    };
  }
  const library = load("@modelcontextprotocol/client");
  const mode = order.client === "client-modern" ? { pin: "2026-07-28" } : "legacy";
  return {
    client: new library.Client(about, { versionNegotiation: { mode } }),
    Stdio: load("@modelcontextprotocol/client/stdio").StdioClientTransport,
    Http: library.StreamableHTTPClientTransport,
  };
}

async function readSkills(client) {
  const { SkillsClient } = load("@modelcontextprotocol/client/ext/skills");
  const skills = new SkillsClient(client);
  const listed = (await skills.list()).skills;
  const files = {};
  let verified = 0;
  for (const skill of listed) {
    files[skill.uri] = skill.resources.length;
    for (const { uri } of skill.resources) {
      verified += (await skills.read(skill, uri)).verified ? 1 : 0;
    }
  }
  return { skills: listed.map((skill) => skill.frontmatter.name).sort(), files, verified };
}

const { client, Stdio, Http } = parts();
const transport = order.url
  ? new Http(new URL(order.url))
  : new Stdio({ command: order.command, args: order.args, env: order.env, stderr: "ignore" });
await client.connect(transport);
const told = { tools: (await client.listTools()).tools.map((tool) => tool.name), answers: {} };
for (const [name, args] of Object.entries(order.calls)) {
  let result = await client.callTool({ name, arguments: args });
  // A call that takes longer than the server's soft limit goes on as a job.
  for (let id; (id = result._meta?.["skillpouch/job_id"]); ) {
    told.waits = (told.waits ?? 0) + 1;
    result = await client.callTool({ name: "job_wait", arguments: { id, seconds: 30 } });
  }
  const texts = result.content.filter((block) => block.type === "text");
  told.answers[name] = texts.map((block) => block.text).join("\n");
}
if (order.client === "client-modern") Object.assign(told, await readSkills(client));
await client.close();
process.stdout.write(JSON.stringify(told));
