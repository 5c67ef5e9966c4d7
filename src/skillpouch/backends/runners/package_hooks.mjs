// Resolves imports of packages: first in the installed packages, then as Node does.
import { isBuiltin } from 'node:module';

let folder = '';

export function initialize(data) {
  folder = data.folder;
}

// './x', '/x', 'file:…' and '#x' are not packages; imports inside a package need no help.
function isPackage(specifier, parent) {
  if (/^(?:\.|\/|#|[A-Za-z][A-Za-z0-9+.-]*:)/.test(specifier) || isBuiltin(specifier)) return false;
  return !parent?.startsWith(folder);
}

// Two copies, made before either is used, because Node changes the context that it passed.
function contexts(context) {
  const inside = new URL('../x.mjs', folder).href;
  return [{ ...context, parentURL: inside }, { ...context }];
}

function requireMissing(error) {
  if (error?.code !== 'ERR_MODULE_NOT_FOUND' && error?.code !== 'MODULE_NOT_FOUND') throw error;
}

export async function resolve(specifier, context, next) {
  if (!isPackage(specifier, context.parentURL)) return next(specifier, context);
  const [installed, usual] = contexts(context);
  try {
    return await next(specifier, installed);
  } catch (error) {
    requireMissing(error);
    return next(specifier, usual);
  }
}

export function resolveSync(specifier, context, next) {
  if (!isPackage(specifier, context.parentURL)) return next(specifier, context);
  const [installed, usual] = contexts(context);
  try {
    return next(specifier, installed);
  } catch (error) {
    requireMissing(error);
    return next(specifier, usual);
  }
}
