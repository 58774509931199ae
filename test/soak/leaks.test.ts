import { describe } from 'vitest';
import { itLosesNoSlot } from '../http/leak-cases.ts';
import { FRAMEWORKS } from '../http/servers.ts';
import { places } from '../http/stores.ts';

/** In all, more than 100,000. */
const REQUESTS = 17_000;

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    itLosesNoSlot(serve, storeBy, REQUESTS);
  });
});
