// Get the part of a JSON file that a path leads to.
const fs = require("node:fs");
const path = require("node:path");

function steps(text) {
  const found = text.match(/[^.[\]]+/g) ?? [];
  return found[0] === "$" ? found.slice(1) : found;
}

function follow(value, [step, ...rest]) {
  if (step === undefined) return value;
  if (step === "*") return Object.values(value).map((item) => follow(item, rest));
  if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) {
    throw new Error(`there is no '${step}' here`);
  }
  return follow(value[step], rest);
}

module.exports = function handler(args) {
  const file = path.resolve(args.__workDir ?? ".", args.file);
  const found = follow(JSON.parse(fs.readFileSync(file, "utf8")), steps(args.path));
  return args.keys ? Object.keys(found) : found;
};
