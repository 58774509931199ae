import type { IncomingMessage } from 'node:http';
import type { Logger } from '@tollgate/core';
import { Door, type Operator, refuseForeign } from './access.ts';
import { act, type Action, ACTIONS } from './actions.ts';
import { type Answer, html, json, problem } from './answer.ts';
import type { AuditEvent } from './audit.ts';
import { BodyError, jsonBody } from './body.ts';
import type { DashboardOptions } from './options.ts';
import { PAGE, PAGE_POLICY } from './page/page.ts';
import { type Range, RANGES } from './series.ts';
import { stateOf } from './state.ts';
import type { Watched } from './watched.ts';

interface DeskOptions<R> extends Pick<DashboardOptions<R>, 'authorize' | 'origin'> {
  readonly logger: Logger;
  readonly audit: (event: AuditEvent) => void;
}

/** Answers every request for the page, whatever framework it came through. */
export class Desk<R> {
  private readonly watched: Watched;
  private readonly options: DeskOptions<R>;
  private readonly door: Door<R>;

  constructor(watched: Watched, options: DeskOptions<R>) {
    this.watched = watched;
    this.options = options;
    this.door = new Door(options.authorize, options.logger);
  }

  /** @param path below where the page is mounted: empty or with a slash in front. */
  async answer(request: R, raw: IncomingMessage, path: string): Promise<Answer> {
    const operator = await this.door.operatorOf(request);
    if (operator === undefined) return problem(403, 'authorize does not say yes to this request.');
    try {
      return await this.answerTo(operator, raw, path);
    } catch (error) {
      if (error instanceof BodyError) return problem(error.status, error.message);
      this.options.logger.error({ err: error }, 'the dashboard failed');
      return problem(500, 'The dashboard failed; its log says why.');
    }
  }

  private async answerTo(operator: Operator, raw: IncomingMessage, path: string): Promise<Answer> {
    const isRead = raw.method === 'GET' || raw.method === 'HEAD';
    if (path === '' || path === '/') {
      return isRead ? html(PAGE, PAGE_POLICY) : notAllowed('GET, HEAD');
    }
    if (path === '/api/state') {
      if (!isRead) return notAllowed('GET, HEAD');
      return this.state(operator, raw);
    }
    const action = ACTIONS.find((each) => path === `/api/${each}`);
    if (action === undefined) return problem(404, 'There is nothing here.');
    if (raw.method !== 'POST') return notAllowed('POST');
    return this.act(action, operator, raw);
  }

  private async state(operator: Operator, { headers, url = '' }: IncomingMessage): Promise<Answer> {
    const site = headers['sec-fetch-site'];
    if (site === 'cross-site' || site === 'same-site') {
      return problem(403, 'Other sites do not see this.');
    }
    const range = new URLSearchParams(url.split('?')[1]).get('range') ?? '2m';
    if (!Object.hasOwn(RANGES, range)) {
      return problem(400, `range: expected one of ${Object.keys(RANGES).join(', ')}.`);
    }
    return json(200, await stateOf(this.watched, operator, range as Range));
  }

  private async act(action: Action, operator: Operator, raw: IncomingMessage): Promise<Answer> {
    const foreign = refuseForeign(raw, this.options.origin);
    if (foreign !== undefined) return foreign;
    return act(action, await jsonBody(raw), this.watched, operator, this.options.audit);
  }
}

function notAllowed(methods: string): Answer {
  return problem(405, `Use ${methods}.`, { Allow: methods });
}
