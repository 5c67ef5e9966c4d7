/**
 * Say what was added, removed and changed between two JSON objects.
 *
 * @param {object} args
 * @param {object} args.before - The older object
 * @param {object} args.after - The newer object
 * @param {string[]} [args.ignore] - Keys that do not count
 * @returns {object} Three objects: added, removed and changed
 */
export default function diff({ before, after, ignore = [] }) {
  const result = { added: {}, removed: {}, changed: {} };
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  for (const key of [...keys].filter((name) => !ignore.includes(name))) {
    if (!Object.hasOwn(before, key)) {
      result.added[key] = after[key];
    } else if (!Object.hasOwn(after, key)) {
      result.removed[key] = before[key];
    } else if (JSON.stringify(before[key]) !== JSON.stringify(after[key])) {
      result.changed[key] = { before: before[key], after: after[key] };
    }
  }
  return result;
}
