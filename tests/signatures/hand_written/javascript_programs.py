"""JavaScript programs that read their command line by hand, in the ways people do.

Each prints, as JSON, what it took for each argument, under the name by which it is shown.
"""

BY_POSITION = {
    "one": """
const file = process.argv[2];
if (!file) { console.error("Usage: one.js <file>"); process.exit(1); }
console.log(JSON.stringify({ file }));
""",
    "two, one with a default": """
const source = process.argv[2];
const target = process.argv[3] || "out.txt";
if (!source) { console.error("missing"); process.exit(2); }
console.log(JSON.stringify({ source, target }));
""",
    "slice": """
const args = process.argv.slice(2);
if (args.length < 2) { console.error("Usage: slice.js <left> <right> [label]"); process.exit(1); }
const left = args[0], right = args[1];
const label = args[2] ?? "none";
console.log(JSON.stringify({ left, right, label }));
""",
    "only if it is run itself": """
function pack(folder, target) { return { folder, target }; }
if (require.main === module) {
  const args = process.argv.slice(2);
  if (args.length < 1) { console.log("Usage: pack.js <folder> [target]"); process.exit(1); }
  const folder = args[0];
  const target = args[1];
  console.log(JSON.stringify(pack(folder, target)));
}
module.exports = { pack };
""",
    "pattern": """
const [, , name, count = "1", ...rest] = process.argv;
if (!name) throw new Error("a name is needed");
console.log(JSON.stringify({ name, count, rest: rest.map(String) }));
""",
    "pattern of a slice": """
#!/usr/bin/env node
'use strict';
function main() {
  const [url, depth] = process.argv.slice(2);
  if (!url || url === '--help') {
    console.log('Usage: node crawl.js <url> [depth]');
    process.exit(url ? 0 : 1);
  }
  console.log(JSON.stringify({ url, depth: depth === undefined ? undefined : Number(depth) }));
}
main();
""",
    "in an async main": """
async function main() {
  const args = process.argv.slice(2);
  if (args.length === 0) {
    console.error("Usage: x.js <query> [limit]");
    process.exit(1);
  }
  const query = args[0];
  const limit = args.length > 1 ? parseInt(args[1], 10) : 10;
  console.log(JSON.stringify({ query, limit }));
}
main().catch((error) => { console.error(error); process.exit(1); });
""",
    "passed on": """
function convert(input, output) {
  console.log(JSON.stringify({ input, output }));
}
if (process.argv.length !== 4) {
  console.error("needs two");
  process.exit(1);
}
convert(process.argv[2], process.argv[3]);
""",
    "joined": """
const text = process.argv.slice(2).join(" ");
if (!text) { console.error("say something"); process.exit(1); }
console.log(JSON.stringify({ text }));
""",
    "empty words": """
const from = process.argv[2] || "en";
const to = process.argv[3] || require("os").EOL.length.toString();
const style = process.argv[4] || "plain";
console.log(JSON.stringify({ from, to, style }));
""",
    "rest": """
const [command, ...files] = process.argv.slice(2);
if (!command) { process.exit(64); }
const sizes = files.map((file) => file.length);
console.log(JSON.stringify({ command, files }), sizes.length > 99 ? sizes : "");
""",
    "imported argv": """
import { argv } from "node:process";
const place = argv[2];
if (place === undefined) { throw new Error("where?"); }
console.log(JSON.stringify({ place }));
""",
    "shift": """
const args = process.argv.slice(2);
const user = args.shift();
const group = args.shift();
if (!user) { console.error("no user"); process.exit(1); }
console.log(JSON.stringify({ user, group }));
""",
}

BY_FLAGS = {
    "for and if": """
const args = process.argv.slice(2);
const options = { out: "a.txt", verbose: false, level: undefined };
for (let i = 0; i < args.length; i++) {
  if (args[i] === "--out") { options.out = args[++i]; }
  else if (args[i] === "--verbose" || args[i] === "-v") { options.verbose = true; }
  else if (args[i] === "--level") { options.level = parseInt(args[i + 1], 10); i++; }
  else { console.error("unknown " + args[i]); process.exit(2); }
}
console.log(JSON.stringify(options));
""",
    "switch": """
function parseArgs(argv) {
  const parsed = { input: null, format: "text", dry_run: false, tag: [] };
  for (let index = 2; index < argv.length; index += 1) {
    const arg = argv[index];
    switch (arg) {
      case "-i":
      case "--input":
        parsed.input = argv[index + 1];
        index += 1;
        break;
      case "--format": {
        const value = argv[++index];
        if (!["text", "json"].includes(value)) throw new Error("bad format");
        parsed.format = value;
        break;
      }
      case "--dry-run":
        parsed.dry_run = true;
        break;
      case "--tag":
        parsed.tag.push(argv[++index]);
        break;
      case "--help":
        console.log("help");
        process.exit(0);
      default:
        throw new Error(`Unknown argument: ${arg}`);
    }
  }
  return parsed;
}
const parsed = parseArgs(process.argv);
if (!parsed.input) { console.error("--input is required"); process.exit(1); }
console.log(JSON.stringify(parsed));
""",
    "while and shift": """
const argv = process.argv.slice(2);
let port = "80", host = "localhost", quiet = false;
while (argv.length > 0) {
  const word = argv.shift();
  if (word === "--port") port = argv.shift();
  else if (word === "--host") host = argv.shift();
  else if (word === "-q" || word === "--quiet") quiet = true;
}
console.log(JSON.stringify({ port, host, quiet }));
""",
    "joined values": """
const seen = { name: "x", size: undefined, fast: false };
for (const arg of process.argv.slice(2)) {
  if (arg.startsWith("--name=")) seen.name = arg.slice("--name=".length);
  else if (arg.startsWith("--size=")) seen.size = Number(arg.split("=")[1]);
  else if (arg === "--fast") seen.fast = true;
}
console.log(JSON.stringify(seen));
""",
    "looked up": """
const args = process.argv.slice(2);
const json = args.includes("--json");
const at = args.indexOf("--out");
const out = at !== -1 ? args[at + 1] : "stdout";
console.log(JSON.stringify({ json, out }));
""",
    "a function that looks up": """
const args = process.argv.slice(2);
function option(name, fallback) {
  const index = args.indexOf(`--${name}`);
  return index >= 0 && args[index + 1] ? args[index + 1] : fallback;
}
const model = option("model", "small");
const voice = option("voice", null);
const loud = args.includes("--loud") || args.includes("-l");
console.log(JSON.stringify({ model, voice, loud }));
""",
    "find": """
const args = process.argv.slice(2);
const url = args.find((arg) => !arg.startsWith("--"));
const depth = args.find((arg) => arg.startsWith("--depth="))?.split("=")[1];
const follow = args.includes("--follow");
if (!url) { console.error("Usage: find.js <url> [--depth=N] [--follow]"); process.exit(1); }
console.log(JSON.stringify({ url, depth, follow }));
""",
    "filter": """
const args = process.argv.slice(2);
const plain = args.filter((a) => !a.startsWith("-"));
const [first, second] = plain;
const all = args.some((a) => a === "--all");
if (plain.length < 1) { console.error("one at least"); process.exit(1); }
console.log(JSON.stringify({ first, second, all }));
""",
    "first by position, then flags": """
const input = process.argv[2];
if (!input) { console.error("Usage: x <input> [--width N]"); process.exit(1); }
let width = 80;
for (let i = 3; i < process.argv.length; i++) {
  if (process.argv[i] === "--width") width = Number(process.argv[++i]);
}
console.log(JSON.stringify({ input, width }));
""",
    "others are collected": """
const files = [];
let out = null, strict = false;
const argv = process.argv.slice(2);
for (let i = 0; i < argv.length; i++) {
  const a = argv[i];
  if (a === "-o" || a === "--out") { out = argv[i + 1]; i += 1; continue; }
  if (a === "--strict") { strict = true; continue; }
  if (a.startsWith("-")) { console.error("no such option"); process.exit(2); }
  files.push(a);
}
if (files.length === 0) { console.error("no files"); process.exit(2); }
console.log(JSON.stringify({ out, strict, files }));
""",
    "others are taken in turn": """
let source, target, force = false;
for (const word of process.argv.slice(2)) {
  if (word === "--force") force = true;
  else if (!source) source = word;
  else if (!target) target = word;
  else throw new Error("too many");
}
if (!source) throw new Error("what?");
console.log(JSON.stringify({ source, target, force }));
""",
    "each": """
const settings = { colour: true, title: "none" };
process.argv.slice(2).forEach((arg, i, all) => {
  if (arg === "--no-colour") settings.colour = false;
  if (arg.startsWith("--title=")) settings.title = arg.replace("--title=", "");
});
console.log(JSON.stringify({ no_colour: !settings.colour, title: settings.title }));
""",
    "a value must not look like a flag": """
function value(args, index, flag) {
  const found = args[index + 1];
  if (!found || found.startsWith("--")) throw new Error(`${flag} requires a value`);
  return found;
}
const args = process.argv.slice(2);
const options = { root: ".", check: false };
for (let i = 0; i < args.length; i += 1) {
  const arg = args[i];
  if (arg === "--root") { options.root = value(args, i, arg); i += 1; continue; }
  if (arg === "--check") { options.check = true; continue; }
  throw new Error(`unknown: ${arg}`);
}
console.log(JSON.stringify(options));
""",
    "either form": """
const opts = { repo: null, limit: "5" };
const words = process.argv.slice(2);
for (let i = 0; i < words.length; i++) {
  const word = words[i];
  if (word === "--repo") { opts.repo = words[++i]; }
  else if (word.startsWith("--repo=")) { opts.repo = word.slice(7); }
  else if (word === "--limit") { opts.limit = words[++i]; }
  else if (word.startsWith("--limit=")) { opts.limit = word.slice(8); }
}
console.log(JSON.stringify(opts));
""",
    "key and value by a pattern": """
const found = { lang: "en", upper: false };
for (const arg of process.argv.slice(2)) {
  const [key, value] = arg.split("=");
  switch (key) {
    case "--lang": found.lang = value || "en"; break;
    case "--upper": found.upper = true; break;
  }
}
console.log(JSON.stringify(found));
""",
}

DECLINED = {
    "any flag": """
const out = {};
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i++) {
  if (args[i].startsWith("--")) { out[args[i].slice(2)] = args[++i]; }
}
console.log(out);
""",
    "commands": """
const [command, name] = process.argv.slice(2);
if (command === "add") { console.log("add", name); }
const args = process.argv.slice(2);
if (command === "list") { console.log("list", args[2]); }
""",
    "state": """
let expecting = null;
const found = {};
for (const arg of process.argv.slice(2)) {
  if (arg === "--out") { expecting = "out"; continue; }
  if (expecting) { found[expecting] = arg; expecting = null; }
}
console.log(found);
""",
    "another module reads": """
const { parse } = require("./parse");
console.log(parse(process.argv));
""",
    "changed": """
process.argv.splice(2, 1);
console.log(process.argv[2]);
""",
    "usage knows more": """
// Usage: more.js <input> [--colour]
const input = process.argv[2];
console.log(input);
""",
    "a value without its flag": """
const args = process.argv.slice(2);
console.log(args[args.indexOf("--out") + 1]);
""",
    "help knows more": """
function help() {
  console.log(`Options:
  --deep          go deeper
  --wide <n>      go wider
`);
}
if (process.argv.includes("--help")) help();
console.log(process.argv.includes("--deep"));
""",
    "a flag that only a pattern knows": """
let mode = 0, all = false;
for (const arg of process.argv.slice(2)) {
  if (arg === "--all") all = true;
  else if (/^--mode=/.test(arg)) mode = arg.replace(/^--mode=/, "");
}
console.log(mode, all);
""",
    "any flag after a command": """
function parseArgs(argv) {
  const [command, ...tokens] = argv;
  if (!command || command === "--help") return { command: "help", options: {} };
  const options = {};
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    if (!token.startsWith("--")) throw new Error(`Unexpected argument: ${token}`);
    const key = token.slice(2);
    const next = tokens[index + 1];
    if (next === undefined || next.startsWith("--")) {
      options[key] = true;
    } else {
      options[key] = next;
      index += 1;
    }
  }
  return { command, options };
}
const { command, options } = parseArgs(process.argv.slice(2));
console.log(command, JSON.stringify(options));
""",
}
