/** About four characters are a token. Wrong for many a text, which is what settling is for. */
export const tokensIn = (text) => Math.ceil(text.length / 4);

/** Reads along with the events of a language model's answer, and tells what it used. */
export class Meter {
  #decoder = new TextDecoder();
  #line = '';
  #text = '';
  #usage;
  #prompt;

  /** @param {number} prompt the tokens of the prompt, as estimated */
  constructor(prompt) {
    this.#prompt = prompt;
  }

  /** @param {Uint8Array} bytes the next of the stream, cut anywhere */
  read(bytes) {
    const lines = (this.#line + this.#decoder.decode(bytes, { stream: true })).split('\n');
    this.#line = lines.pop();
    for (const line of lines) {
      const { choices, usage } = dataOf(line);
      this.#text += choices?.[0]?.delta?.content ?? '';
      this.#usage = usage ?? this.#usage;
    }
  }

  /** An estimate of what was used so far. */
  get streamed() {
    return this.#prompt + tokensIn(this.#text);
  }

  /** What the model says that it used. NaN where it says nothing, or nonsense: no cost that could be charged. */
  get used() {
    const { prompt_tokens: prompt, completion_tokens: completion } = this.#usage ?? {};
    const isCount = (value) => Number.isInteger(value) && value >= 0;
    return isCount(prompt) && isCount(completion) ? prompt + completion : NaN;
  }
}

/** Lines that hold no JSON, such as `data: [DONE]`, say nothing. */
function dataOf(line) {
  try {
    return JSON.parse(line.replace(/^data: ?/, '')) ?? {};
  } catch {
    return {};
  }
}
