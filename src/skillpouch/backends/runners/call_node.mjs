// Calls the default export of a JavaScript module: call_node.mjs SCRIPT, or call_node.mjs --wait.
// The returned value is written to a file without a name, separate from what the script prints.
// With --wait it prepares itself, and then reads its one call from descriptor 4.
import { readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const ORDERS = 4;
const waiting = process.argv[2] === '--wait';

if (waiting) await waitForCall();

const script = process.argv[2];
const answer = Number(process.env.SKILLPOUCH_ANSWER);
const source = process.env.SKILLPOUCH_ARGUMENTS;
delete process.env.SKILLPOUCH_ANSWER;
delete process.env.SKILLPOUCH_ARGUMENTS;
delete process.env.SKILLPOUCH_SCRIPTS;

async function waitForCall() {
  // Not process.stdin: using it makes the descriptor non-blocking for later readers.
  void process.stdout;
  void process.stderr;
  const rehearsal = await import(new URL('./rehearsal.mjs', import.meta.url).href);
  JSON.stringify(await rehearsal.default(JSON.parse(readFileSync('/dev/null', 'utf8') || '{}')));
  handlerOf(rehearsal);
  await flushed();
  writeSync(ORDERS, 'r');
  const { argv, env, cwd } = JSON.parse(readLine());
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(env, name)) delete process.env[name];
  for (const [name, value] of Object.entries(env)) {
    if (process.env[name] !== value) process.env[name] = value;
  }
  process.argv.splice(2, 1, ...argv.slice(argv.indexOf(process.argv[1]) + 1));
  endQuickly();
}

// Destroying the JavaScript engine takes three milliseconds. So at the very end, after all exit
// handlers, this process reports its exit status and is killed by the host.
function endQuickly() {
  const reallyExit = process.reallyExit;
  process.reallyExit = (status) => {
    try {
      writeSync(ORDERS, `${status & 0xff}\n`);
      readSync(ORDERS, Buffer.allocUnsafe(1));
    } catch {
      // The script has closed the descriptor, or the host is gone.
    }
    reallyExit.call(process, status);
  };
}

function readLine() {
  const pieces = [];
  const piece = Buffer.allocUnsafe(65536);
  for (;;) {
    const count = readSync(ORDERS, piece, 0, piece.length, null);
    if (count === 0) process.exit(0); // the host is gone: no call will come
    pieces.push(Buffer.from(piece.subarray(0, count)));
    if (piece[count - 1] === 10) return Buffer.concat(pieces).toString();
  }
}

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

// Printing is asynchronous: wait until everything is written.
function flushed() {
  return new Promise((done) => process.stdout.write('', done));
}

// Without the lines of this file and of the engine, which do not help to find the script's error.
function print(error) {
  const lines = (error?.stack ?? String(error)).split('\n');
  const isOurs = (line) =>
    line.includes(import.meta.url) || line.includes('at process.processTicksAndRejections (node:');
  console.error(lines.filter((line) => !isOurs(line)).join('\n'));
}

let status = 0;
process.argv.splice(1, 2, script);
try {
  const args = readArguments();
  const handler = handlerOf(await import(pathToFileURL(script).href));
  const value = await handler(args);
  await flushed();
  finish(value);
} catch (error) {
  print(error);
  await flushed();
  finish({ error: error?.message ?? String(error) });
  status = 1;
}
// Timers and sockets that the handler left open do not delay the answer.
process.exit(status);
