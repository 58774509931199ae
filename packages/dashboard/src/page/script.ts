import { ELEMENTS } from './script/elements.ts';
import { KEY_DIALOG } from './script/key-dialog.ts';
import { LIMITS } from './script/limits.ts';
import { PLOT } from './script/plot.ts';
import { POLLING } from './script/polling.ts';

/** The script of the page, which runs as it stands: it is one text so that the page can name its hash. */
export const SCRIPT: string = `'use strict';
{${ELEMENTS}${PLOT}${LIMITS}${KEY_DIALOG}${POLLING}}`;
