export { addressKey, clientIp, type ClientIpOptions } from './http/client-ip.ts';
export { gateLimits, type KeySource } from './http/file-limits.ts';
export {
  type Adapter,
  type Exchange,
  Gate,
  type Lane,
  type Outcome,
  type Refusal,
} from './http/gate.ts';
export {
  type CountOnly,
  GATE_OPTIONS,
  type GateLimitOptions,
  type GateOptions,
  type RouteOptions,
  type Stage,
} from './http/gate-options.ts';
export { exposedHeaders, type HeaderForm, mergeExposed } from './http/headers.ts';
export {
  all,
  apiKey,
  type ApiKeyOptions,
  bearerToken,
  custom,
  everyone,
  firstOf,
  type OptionalKeyOptions,
  route,
  secret,
  tenant,
} from './http/keys.ts';
export type { Problem } from './http/problem.ts';
export { TollgateClosedGateError, TollgateFunctionError, TollgateRefusal } from './http/refusal.ts';
export type { Rejected, RejectedKey, Rejections } from './http/rejections.ts';
export type { HttpRequest, KeyFunction } from './http/request.ts';
export { type LoadShedder, loadShedder, type LoadShedderOptions } from './http/shedder.ts';
