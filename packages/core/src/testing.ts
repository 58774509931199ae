export {
  type ConformanceCase,
  type ConformanceOptions,
  storeConformance,
} from './testing/conformance.ts';
export { type ManualClock, manualClock } from './testing/manual-clock.ts';
