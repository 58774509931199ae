import type { Answer, Handler } from './app.ts';

/** A handler that holds requests until they are let go, so that a test decides how they overlap. */
export class Turnstile {
  /** How many requests came to the handler, and what each of them is. */
  readonly arrivals: (string | undefined)[] = [];
  private readonly held: ((answer: Answer) => void)[] = [];

  readonly handler: Handler = ({ request }) => {
    this.arrivals.push(request.headers['x-request'] as string | undefined);
    return new Promise<Answer>((resolve) => this.held.push(resolve));
  };

  get arrived(): number {
    return this.arrivals.length;
  }

  /** How many are held now. */
  get holding(): number {
    return this.held.length;
  }

  /** Answers those who came first. */
  release(count: number, status = 200): void {
    for (const answer of this.held.splice(0, count)) answer({ status });
  }
}
