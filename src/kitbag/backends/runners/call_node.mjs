// Calls the default export of a JavaScript module: call_node.mjs SCRIPT.
// The value it returns is written to a file without a name, so that prints and value stay apart.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const script = process.argv[2];
const answer = Number(process.env.KITBAG_ANSWER);
const source = process.env.KITBAG_ARGUMENTS;
delete process.env.KITBAG_ANSWER;
delete process.env.KITBAG_ARGUMENTS;
delete process.env.KITBAG_SCRIPTS;

function readArguments() {
  if (source === 'stdin') return JSON.parse(readFileSync(0, 'utf8') || '{}');
  if (source === 'variable') return JSON.parse(process.env.TOOL_ARGS);
  return JSON.parse(readFileSync(process.env.TOOL_ARGS_FILE, 'utf8'));
}

function handlerOf(module) {
  // CommonJS arrives as the default export; its own `default` or `handler` may be the function.
  const found = module.default ?? module;
  for (const candidate of [found, found?.default, found?.handler, module.handler]) {
    if (typeof candidate === 'function') return candidate;
  }
  throw new Error(`${script} has no default export that is a function`);
}

function finish(value) {
  writeFileSync(answer, JSON.stringify(value) ?? 'null');
}

// What a handler prints goes through a stream of its own: wait until it has gone out.
const flushed = () => new Promise((done) => process.stdout.write('', done));

process.argv.splice(1, 2, script);
try {
  const args = readArguments();
  const handler = handlerOf(await import(pathToFileURL(script).href));
  const value = await handler(args);
  await flushed();
  finish(value);
  process.exit(0); // timers and sockets that the handler left open do not delay the answer
} catch (error) {
  // The lines of this file would only puzzle whoever reads the script's own error.
  const lines = (error?.stack ?? String(error)).split('\n');
  console.error(lines.filter((line) => !line.includes('call_node.mjs')).join('\n'));
  await flushed();
  finish({ error: error?.message ?? String(error) });
  process.exit(1);
}
