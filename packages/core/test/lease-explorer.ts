import { KINDS, type Setup, type Step, World } from './lease-world.ts';

/** What went wrong, and how. */
export interface Finding {
  readonly steps: readonly Step[];
  readonly problem: string;
}

/** What was looked at. */
export interface Exploration {
  readonly worlds: number;
  readonly finding: Finding | undefined;
}

/**
 * Looks at every world that so many steps can lead to, the nearest first, until one is wrong.
 *
 * @param check what is wrong with a world.
 */
export function explore(
  setup: Setup,
  depth: number,
  check: (world: World) => string | undefined,
): Exploration {
  const steps: Step[] = [
    'time passes',
    ...KINDS.flatMap((kind) => setup.drifts.map((_, process): Step => [kind, process])),
  ];
  const seen = new Set<string>();
  let nearest: (readonly Step[])[] = [[]];
  for (let length = 1; length <= depth; length++) {
    const next: (readonly Step[])[] = [];
    for (const path of nearest) {
      const here = after(setup, path);
      for (const step of steps) {
        if (!here.may(step)) continue;
        const world = after(setup, path);
        if (!world.take(step)) continue;
        const name = world.name();
        if (seen.has(name)) continue;
        seen.add(name);
        const to = [...path, step];
        const problem = check(world);
        if (problem !== undefined) return { worlds: seen.size, finding: { steps: to, problem } };
        next.push(to);
      }
    }
    nearest = next;
  }
  return { worlds: seen.size, finding: undefined };
}

function after(setup: Setup, path: readonly Step[]): World {
  const world = new World(setup);
  for (const step of path) world.take(step);
  return world;
}
