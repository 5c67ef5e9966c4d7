// Where an import of a package leads: the installed packages first, then what Node would say.
import { isBuiltin } from 'node:module';

let folder = '';

export function initialize(data) {
  folder = data.folder;
}

// './x', '/x', 'file:…' and '#x' are not packages; what a package imports is found from itself.
function isPackage(specifier, parent) {
  if (/^(?:\.|\/|#|[A-Za-z][A-Za-z0-9+.-]*:)/.test(specifier) || isBuiltin(specifier)) return false;
  return !parent?.startsWith(folder);
}

const isMissing = (error) =>
  error?.code === 'ERR_MODULE_NOT_FOUND' || error?.code === 'MODULE_NOT_FOUND';

export async function resolve(specifier, context, next) {
  if (!isPackage(specifier, context.parentURL)) return next(specifier, context);
  try {
    return await next(specifier, { ...context, parentURL: new URL('../x.mjs', folder).href });
  } catch (error) {
    if (!isMissing(error)) throw error;
    return next(specifier, context);
  }
}

export function resolveSync(specifier, context, next) {
  if (!isPackage(specifier, context.parentURL)) return next(specifier, context);
  try {
    return next(specifier, { ...context, parentURL: new URL('../x.mjs', folder).href });
  } catch (error) {
    if (!isMissing(error)) throw error;
    return next(specifier, context);
  }
}
