import { Allocator, type AllocatorOptions } from "./allocator.js";
import type { Core } from "./connection.js";
import { date } from "./core/convert.js";
import { requestIdOf } from "./core/identity.js";
import type { CallOptions } from "./core/options.js";
import { SequenceService } from "./gen/tollgate/v1/sequence_pb.js";

/** Options of a call for values. */
export interface NextOptions extends CallOptions {
  /** Number of values, 1 to 10,000. Default: 1. */
  readonly count?: number | undefined;
  /** Distance between values, 1 to 2^63-1. Default: 1. */
  readonly step?: bigint | number | undefined;
  /** Lower bound of the values, 0 to 2^63-1. Default: none. */
  readonly floor?: bigint | number | undefined;
  /**
   * Identifies the request: a repeat within 5 minutes returns the same values. Default, or empty: a
   * random one.
   */
  readonly requestId?: string | undefined;
}

/** Values for one caller: `first`, `first + step`, … `last`. */
export interface Values {
  readonly first: bigint;
  readonly last: bigint;
  readonly step: bigint;
  /** The values in the layout of the name; empty without a layout. */
  readonly serials: readonly string[];
  /** Whether `floor` was above the next value. */
  readonly floorApplied: boolean;
  /** Whether an earlier call with this `requestId` got these values. */
  readonly replayed: boolean;
}

/** The last value that was handed out. */
export interface LastValue {
  /** The value; 0 if none was given out. */
  readonly last: bigint;
  /** The value in the layout of the name; empty without a layout. */
  readonly serial: string;
  readonly updateTime: Date | undefined;
}

/** Sequences: serial numbers that never repeat. */
export class Sequences {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Returns the next values of a sequence. Retries return the same values. */
  async next(name: string, options: NextOptions = {}): Promise<Values> {
    const { count, step, floor, requestId } = options;
    const request = {
      name,
      count,
      step: step === undefined ? undefined : BigInt(step),
      floor: floor === undefined ? undefined : BigInt(floor),
      requestId: requestIdOf(requestId),
    };
    const { message } = await this.#core.caller.call(SequenceService.method.nextSequence, request, options);
    const { first, last, serials, floorApplied, replayed } = message;
    return { first, last, step: message.step, serials, floorApplied, replayed };
  }

  /** Returns the last value that was given out. */
  async last(name: string, options: CallOptions = {}): Promise<LastValue> {
    const { message } = await this.#core.caller.call(SequenceService.method.getSequence, { name }, options);
    return { last: message.last, serial: message.serial, updateTime: date(message.updateTime) };
  }

  /**
   * Moves a sequence forward, so that its next value is at least `floor`, 0 to 2^63-1. Returns false
   * if the floor is not above the last value: nothing changed then. Needs the permission `manage`.
   */
  async setFloor(name: string, floor: bigint | number, options: CallOptions = {}): Promise<boolean> {
    const request = { name, floor: BigInt(floor) };
    const { message } = await this.#core.caller.call(
      SequenceService.method.setSequenceFloor,
      request,
      options,
    );
    return message.applied;
  }

  /** Makes an allocator, which takes blocks of values and hands them out without a call. */
  allocator(name: string, options: AllocatorOptions = {}): Allocator {
    return new Allocator((next) => this.next(name, next), options);
  }
}
