// List every value inside a JSON document together with its path.
function flatten(value, path, leaves) {
  const isBranch = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  if (!isBranch) {
    leaves[path] = value;
    return leaves;
  }
  for (const [key, child] of Object.entries(value)) {
    const step = Array.isArray(value) ? `[${key}]` : path ? `.${key}` : key;
    flatten(child, path + step, leaves);
  }
  return leaves;
}

module.exports = (args) => flatten(args.document, "", {});
