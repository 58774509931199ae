export type { AuditEvent } from './audit.ts';
export { type Dashboard, dashboard } from './dashboard.ts';
export type { FastifyHost, FastifyMount } from './fastify.ts';
export type { DashboardOptions } from './options.ts';
export type { WatchedGate } from './watched.ts';
