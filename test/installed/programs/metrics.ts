import { createLimiter, tokenBucket } from '@tollgate/core';
import { observeOpenTelemetry } from '@tollgate/core/opentelemetry';
import { collectPrometheus } from '@tollgate/core/prometheus';
import { register } from 'prom-client';

const stops = [collectPrometheus({ register }), observeOpenTelemetry()];
const limiter = createLimiter({
  limits: [{ name: 'api', policy: tokenBucket({ capacity: 2, rate: 1, per: '1h' }) }],
});
limiter.consume({ api: 'ada' });

void register.metrics().then((text) => {
  for (const stop of stops) stop();
  console.log(JSON.stringify([text.includes('tollgate_verdicts_total{limit="api"')]));
});
