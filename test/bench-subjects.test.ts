import { spawnSync } from 'node:child_process';
import { beforeAll, expect, it } from 'vitest';
import { build, ROOT } from './readme/built.ts';

beforeAll(build, 180_000);

it('what is measured of decisions in memory admits and refuses', () => {
  const script = `
    import { address, SUBJECTS } from ${JSON.stringify(`${ROOT}bench/memory-subjects.mjs`)};
    const answers = {};
    for (const [name, { open }] of Object.entries(SUBJECTS)) {
      const { check, allowed } = await open({ limit: 2, windowMs: 3_600_000 });
      answers[name] = [];
      for (let i = 0; i < 3; i++) {
        const answer = await Promise.resolve(check(address('10', 7), 0)).catch((refusal) => refusal);
        answers[name].push(allowed(answer));
      }
    }
    console.log(JSON.stringify(answers));
    process.exit();`;
  const { stdout, stderr } = spawnSync('node', ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  const answers = Object.entries(JSON.parse(stdout) as Record<string, boolean[]>);
  expect(answers.length).toBeGreaterThan(10);
  for (const [name, said] of answers) expect(said, name).toEqual([true, true, false]);
});
