import { type MetricData, MetricReader } from '@opentelemetry/sdk-metrics';

/** Keeps nothing, and reads when it is asked to. */
export class Reader extends MetricReader {
  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }

  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  async metrics(): Promise<MetricData[]> {
    const { resourceMetrics, errors } = await this.collect();
    if (errors.length > 0) throw new AggregateError(errors);
    return resourceMetrics.scopeMetrics.flatMap(({ metrics: all }) => all);
  }

  /** The values of all metrics but the histogram, named as in a scrape. */
  async values(): Promise<Record<string, number>> {
    const values: Record<string, number> = {};
    for (const { descriptor, dataPoints } of await this.metrics()) {
      const name = descriptor.name.replace('tollgate.', '').replaceAll('.', '_');
      for (const { attributes, value } of dataPoints) {
        const labels = Object.entries(attributes).map(
          ([label, told]) => `${label.replace(/^tollgate\./, '')}=${String(told)}`,
        );
        if (typeof value === 'number') values[[name, ...labels.sort()].join(' ')] = value;
      }
    }
    return values;
  }
}
