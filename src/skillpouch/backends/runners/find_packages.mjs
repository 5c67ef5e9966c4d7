// Lets a script import packages that are installed outside its folder: node --import=this.
// NODE_PATH names the folder; require() reads it, but import does not.
import * as module from 'node:module';
import { pathToFileURL } from 'node:url';
import { initialize, resolveSync } from './package_hooks.mjs';

const folder = process.env.NODE_PATH;
if (folder && module.registerHooks) {
  // registerHooks runs in this thread, for both import and require.
  initialize({ folder: pathToFileURL(`${folder}/`).href });
  module.registerHooks({ resolve: resolveSync });
} else if (folder && module.register) {
  const hooks = new URL('./package_hooks.mjs', import.meta.url);
  module.register(hooks, { data: { folder: pathToFileURL(`${folder}/`).href } });
}
