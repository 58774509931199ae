export { UnreadableLogError } from './log/bytes.ts';
export { type Progress, replay, type ReplayLimit, type ReplayOptions } from './replay/replay.ts';
export type {
  BadLine,
  ComparedAlgorithm,
  LimitReport,
  RefusedKey,
  ReplayReport,
  Timelines,
} from './replay/report.ts';
