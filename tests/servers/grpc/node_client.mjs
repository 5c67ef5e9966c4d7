// Runs a session with the gRPC of Node, from skillpouch.proto alone; prints JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/node_modules/`));
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const order = JSON.parse(readFileSync(0, "utf8"));

const loaded = loader.loadSync(order.proto, { keepCase: true, defaults: true, oneofs: true, enums: String });
const { Skillpouch } = grpc.loadPackageDefinition(loaded).skillpouch.v1;
const client = new Skillpouch(order.address, grpc.credentials.createInsecure());

const ask = (method, request) =>
  new Promise((resolve, reject) =>
    client[method](request, (error, answer) => (error ? reject(error) : resolve(answer))));

const stream = (request) =>
  new Promise((resolve, reject) => {
    const told = { printed: "", result: null };
    client.StreamTool(request)
      .on("data", (each) => {
        if (each.event === "output") told.printed += each.output.data.toString();
        else told.result = each.result.outcome;
      })
      .on("error", reject)
      .on("end", () => resolve(told));
  });

const { session_id } = await ask("CreateSession", {});
const used = await ask("UseSkill", { session_id, skill_name: "shouting", skill_content: order.skill });
const call = { session_id, tool: "shout", args_json: JSON.stringify({ text: "hé" }) };
const { result } = await ask("ExecuteTool", call);
const streamed = await stream(call);
const removed = await ask("RemoveSkill", { session_id, skill_name: "shouting" });
const refused = await ask("ExecuteTool", call).catch((error) => ({ code: error.code }));
await ask("DestroySession", { session_id });
const gone = await ask("ListActiveSkills", { session_id }).catch((error) => ({ code: error.code }));
client.close();
console.log(JSON.stringify({
  used: used.tool_names, content: result.content, exit: result.exit_code, streamed,
  removed: removed.removed_tools, refused: refused.code, gone: gone.code,
}));
