import { describe } from 'vitest';
import { itLosesNoSlot } from './leak-cases.ts';
import { FRAMEWORKS } from './servers.ts';
import { places } from './stores.ts';

/** In all, more than 2,000; `npm run test:soak` sends 100,000. */
const REQUESTS = 340;

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    itLosesNoSlot(serve, storeBy, REQUESTS);
  });
});
