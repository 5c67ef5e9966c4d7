"""JavaScript and TypeScript: default exports, JSDoc, types, options."""
