"""Handlers that must give the same, whether their Node was started for them or waited for them."""


def handler(*lines: str, before: str = "") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{before}\nexport default async (args) => {{\n{body}}};\n"


FS = "import { closeSync, readFileSync, writeSync } from 'node:fs';"
PROCESSES = "import { execFileSync, spawn } from 'node:child_process';"
WORKER = "import { Worker } from 'node:worker_threads';"
PAUSE = "await new Promise((done) => setTimeout(done, 300));"
FOREVER = "await new Promise(() => setInterval(() => {}, 100));"

VALUES = {
    "object": handler("return { a: [1, null, 'ü'], b: { c: true } };"),
    "nothing": handler("return undefined;"),
    "plain_function": "export default (args) => 3;\n",
    "its_arguments": handler("return args;"),
    "not_json": handler("return 5n;"),
    "circular": handler("const a = {};", "a.a = a;", "return a;"),
    "three_megabytes": handler("return 'x'.repeat(3_000_000);"),
    "promise_in_promise": handler("return Promise.resolve(Promise.resolve([1]));"),
}
SURROUNDINGS = {
    "words": handler("return [process.argv, process.argv0, process.execArgv, process.title];"),
    "variables": handler("return [Object.keys(process.env), process.env];"),
    "folder": handler("return [process.cwd(), import.meta.url];"),
    "identity": handler("return [process.umask(), process.ppid, process.getuid()];"),
    "streams": handler("return [process.stdin, process.stdout].map((s) => s.constructor.name);"),
    "time_zone": handler(
        "return [new Date(0).toString(), Intl.DateTimeFormat().resolvedOptions()];"
    ),
    "global_names": handler("return Object.getOwnPropertyNames(globalThis).sort();"),
    "listeners": handler("return process.eventNames().map(String);"),
    "exit_code_unset": handler("return String(process.exitCode);"),
    "web_assembly": handler("return new WebAssembly.Memory({ initial: 1 }).buffer.byteLength;"),
    "variables_of_a_child": handler(
        "return execFileSync('/bin/sh', ['-c', 'pwd; env | sort | grep -v ^_=']).toString();",
        before=PROCESSES,
    ),
    "descriptors_of_a_child": handler(
        "return execFileSync('/bin/ls', ['/proc/self/fd']).toString();", before=PROCESSES
    ),
}
PRINTING = {
    "both_streams": handler(
        "console.log('one');", "console.error('two');", "console.log('three');"
    ),
    "half_a_megabyte": handler("process.stdout.write('y'.repeat(500_000));", "return 1;"),
    "closed_output": handler("process.stdout.end('last');", "return 1;"),
    "printed_and_returned": handler("console.log('printed');", "return 'returned';"),
    "no_line_end": handler("process.stdout.write('no line end');", "return 1;"),
}
FAILURES = {
    "throws": handler("throw new Error('no');"),
    "throws_deep": (
        "function inner() {\n  throw new TypeError('deep');\n}\n"
        "function outer() {\n  inner();\n}\nexport default () => outer();\n"
    ),
    "throws_later": handler(PAUSE, "throw new RangeError('later');"),
    "rejects": "export default () => Promise.reject(new Error('rejected'));\n",
    "throws_text": handler("throw 'text';"),
    "throws_null": handler("throw null;"),
    "throws_undefined": handler("throw undefined;"),
    "throws_with_cause": handler("throw new Error('outer', { cause: new Error('inner') });"),
    "nobody_handles_the_rejection": handler("Promise.reject(new Error('nobody'));", PAUSE),
    "nobody_catches": handler("setTimeout(() => { throw new Error('nobody'); }, 1);", PAUSE),
    "catches_all": handler(
        "process.on('uncaughtException', (e) => { console.log(e.message); process.exit(6); });",
        "setTimeout(() => { throw new Error('caught'); }, 1);",
        PAUSE,
    ),
    "never_settles": handler("return new Promise(() => {});"),
    "throws_when_loaded": "throw new Error('at load');\nexport default () => 1;\n",
    "rejects_when_loaded": "await 0;\nthrow new Error('at load');\nexport default () => 1;\n",
    "imports_nothing": "import x from './nowhere.mjs';\nexport default () => x;\n",
    "imports_no_package": "import x from 'nowhere';\nexport default () => x;\n",
    "stack_of_its_own": handler("return new Error('x').stack.split('\\n').slice(0, 2);"),
}
ENDINGS = {
    "exits": handler("console.log('x');", "process.exit(3);"),
    "exits_below_zero": handler("process.exit(-1);"),
    "exit_code_is_overruled": handler("process.exitCode = 5;", "return 1;"),
    "exit_handler": handler("process.on('exit', (c) => console.log('bye', c));", "return 1;"),
    "exit_handler_of_a_failure": handler(
        "process.on('exit', (c) => console.log('bye', c));", "throw new Error('x');"
    ),
    "exit_handler_sets_7": handler("process.on('exit', () => { process.exitCode = 7; });"),
    "exit_handler_sets_265": handler("process.on('exit', () => { process.exitCode = 265; });"),
    "exit_handler_sets_minus_1": handler("process.on('exit', () => { process.exitCode = -1; });"),
    "exit_handler_unsets": handler("process.on('exit', () => { process.exitCode = undefined; });"),
    "exit_handler_exits": handler(
        "process.on('exit', (c) => { console.log('bye', c); process.exit(4); });"
    ),
    "exit_handler_throws": handler(
        "process.on('exit', (c) => { console.log('bye', c); throw new Error('in exit'); });"
    ),
    "exit_handler_is_the_end": handler(
        "process.on('exit', () => setTimeout(() => console.log('never'), 0));",
        "process.on('exit', () => process.nextTick(() => console.log('never')));",
    ),
    "before_exit_is_not_reached": handler("process.on('beforeExit', () => console.log('no'));"),
    "really_exit_is_wrapped": handler(
        "const really = process.reallyExit;",
        "process.reallyExit = (c) => { console.log('last', c); really.call(process, 8); };",
        "return 1;",
    ),
    "timers_left": handler("setInterval(() => {}, 10);", "return 1;"),
    "kills_itself": handler("process.kill(process.pid, 'SIGKILL');", FOREVER),
    "terminates_itself": handler("process.kill(process.pid, 'SIGTERM');", FOREVER),
    "aborts": handler("process.abort();"),
    "child_left": handler(
        "spawn('/bin/sleep', ['100'], { detached: true, stdio: 'ignore' }).unref();",
        "return 1;",
        before=PROCESSES,
    ),
}
WORKERS = {
    "worker": handler(
        "const text = 'require(\"worker_threads\").parentPort.postMessage(process.argv)';",
        "return new Promise((d) => new Worker(text, { eval: true }).on('message', d));",
        before=WORKER,
    ),
    "worker_throws": handler(
        "return new Promise((_, no) => new Worker('throw 1', { eval: true }).on('error', no));",
        before=WORKER,
    ),
    "worker_exits": handler(
        "const worker = new Worker('process.exit(5)', { eval: true });",
        "return new Promise((done) => worker.on('exit', done));",
        before=WORKER,
    ),
}
ANSWERS = {
    "writes_before_its_answer": handler("writeSync(3, '{}');", "return { a: 1 };", before=FS),
    "writes_its_answer_itself": handler(
        "writeSync(3, '{\"mine\": 1}');", "process.exit(0);", before=FS
    ),
    "closes_its_answer": handler("closeSync(3);", "return { a: 1 };", before=FS),
}
LOADING = {
    "waits_when_loaded": (
        "const five = await new Promise((done) => setTimeout(() => done(5), 5));\n"
        "export default () => five;\n"
    ),
    "sibling": "import { x } from './lib/sibling.mjs';\nexport default () => x();\n",
    "sibling_does_not_parse": "import './lib/broken.mjs';\nexport default () => 1;\n",
    "sibling_throws": "import { fail } from './lib/sibling.mjs';\nexport default () => fail();\n",
}
COMMON_JS = {
    "function.cjs": "module.exports = (args) => [__filename, require.main === module];\n",
    "throws.cjs": "module.exports = (args) => {\n  throw new Error('cjs');\n};\n",
    "throws_when_loaded.cjs": "throw new Error('cjs');\nmodule.exports = (args) => 1;\n",
    # Where Node knows no types yet, it says so, both times.
    "typed.ts": "export default (args: { n?: number }): number => args.n ?? 2;\n",
    "requires.js": "const fs = require('fs');\nmodule.exports = async () => typeof fs.statSync;\n",
}
SAME = {
    **{
        f"{group}_{name}.mjs": text
        for group, table in {
            "value": VALUES,
            "around": SURROUNDINGS,
            "print": PRINTING,
            "fail": FAILURES,
            "end": ENDINGS,
            "thread": WORKERS,
            "answer": ANSWERS,
            "load": LOADING,
        }.items()
        for name, text in table.items()
    },
    **{f"common_{name}": text for name, text in COMMON_JS.items()},
}
SIBLING = (
    "export const x = () => 'sibling';\n"
    "export function fail() {\n  throw new Error('in the sibling');\n}\n"
)
