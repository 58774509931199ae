/** The environment without what npm or pnpm set for their own scripts: each would warn of the other's settings. */
export const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_config_')),
);
