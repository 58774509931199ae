import { writeFileSync } from 'node:fs';
import { replay, type ReplayReport } from '@tollgate/cli';

const line = '192.0.2.7 - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 512\n';
writeFileSync('access.log', line.repeat(5));

void replay(['access.log'], {
  limits: [{ name: 'address', policy: { algorithm: 'fixed-window', limit: 3, window: '1m' } }],
}).then(({ admitted, refused }: ReplayReport) => console.log(JSON.stringify([admitted, refused])));
