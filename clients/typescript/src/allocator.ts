import type { NextOptions, Values } from "./sequences.js";

/** Options of an allocator. */
export interface AllocatorOptions extends Pick<NextOptions, "step" | "floor"> {
  /** Values of a block, 1 to 10,000. Default: 100. */
  readonly block?: number | undefined;
}

/** A value of a sequence. */
export interface Allocation {
  readonly value: bigint;
  /** The value in the layout of the name; undefined without a layout. */
  readonly serial: string | undefined;
}

/**
 * Hands out values of a sequence from a block, and fetches the next block when half of it is used.
 * No value is handed out twice. Unused values of a block become a gap.
 */
export class Allocator {
  readonly #take: (options: NextOptions) => Promise<Values>;
  readonly #options: AllocatorOptions;
  readonly #block: number;
  readonly #values: Allocation[] = [];
  /** Position of the next value in `#values`. */
  #position = 0;
  #refill: Promise<void> | undefined;

  /** @internal */
  constructor(take: (options: NextOptions) => Promise<Values>, options: AllocatorOptions) {
    this.#take = take;
    this.#options = options;
    this.#block = options.block ?? 100;
  }

  /** Number of values that can be handed out without a call. */
  get available(): number {
    return this.#values.length - this.#position;
  }

  /**
   * Returns the next value.
   * @throws TollgateError if no value is left and the next block cannot be fetched
   */
  async next(): Promise<Allocation> {
    for (;;) {
      const allocation = this.#values[this.#position];
      if (allocation !== undefined) {
        this.#position += 1;
        // An error of the prefetched block does not matter until the values are used up.
        if (this.available <= this.#block / 2) this.#fill().catch(() => undefined);
        return allocation;
      }
      await this.#fill();
    }
  }

  async #fill(): Promise<void> {
    const { step, floor } = this.#options;
    this.#refill ??= this.#take({ count: this.#block, step, floor })
      .then((values) => {
        this.#values.splice(0, this.#position);
        this.#position = 0;
        this.#values.push(...allocations(values, this.#block));
      })
      .finally(() => {
        this.#refill = undefined;
      });
    await this.#refill;
  }
}

/**
 * Returns the values of a block. Values with a calendar skip invalid times, such as second 60. If a
 * block contains such a jump, only its first and last value are known; the others become a gap.
 */
function allocations({ first, last, step, serials }: Values, count: number): Allocation[] {
  if (last === first) return [{ value: first, serial: serials[0] }];
  if (last - first !== step * BigInt(count - 1)) {
    return [
      { value: first, serial: serials[0] },
      { value: last, serial: serials[count - 1] },
    ];
  }
  return Array.from({ length: count }, (_, index) => ({
    value: first + step * BigInt(index),
    serial: serials[index],
  }));
}
