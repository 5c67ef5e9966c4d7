// Runs programs, each with many command lines, and prints what each printed, or that it refused.
const { createRequire } = require("node:module");
const jobs = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const own = process.argv.slice(0, 2);
const stop = Symbol("stop");

async function run(text, words) {
  const printed = [];
  let code = 0;
  process.argv = [...own, ...words];
  const exit = process.exit, log = console.log, error = console.error;
  process.exit = (status = 0) => { code = status; throw stop; };
  console.log = (...values) => { printed.push(values.join(" ")); };
  console.error = () => {};
  const plain = text.replace(/^import \{ argv \} from "node:process";$/m, "const { argv } = process;");
  const module = { exports: {} };
  try {
    new Function("require", "module", "exports", plain.replace(/^\s*#!.*/, ""))(
      Object.assign(createRequire(__filename), { main: module }), module, module.exports);
    await new Promise((done) => setImmediate(done));
  } catch (failure) {
    if (failure !== stop) code = 1;
  }
  Object.assign(process, { exit });
  Object.assign(console, { log, error });
  return code ? null : printed.join("\n");
}

(async () => {
  process.on("unhandledRejection", () => {});
  const results = [];
  for (const { text, calls } of jobs) {
    const made = [];
    for (const words of calls) made.push(await run(text, words));
    results.push(made);
  }
  process.stdout.write(JSON.stringify(results));
})();
