import type { ChannelGroup } from "./channels.js";

/**
 * Maximum number of waiting calls and streams of one connection. A server accepts 256 calls of a
 * connection by default.
 */
const STREAMS = 200;

/** Channels for calls that take long, with the number of these calls. */
export interface Lane {
  readonly group: ChannelGroup;
  streams: number;
}

/**
 * Connections for waiting calls and streams, separate from the connection of all other calls, so
 * that waits never delay a renewal.
 */
export class Lanes {
  readonly #open: () => ChannelGroup;
  readonly #lanes: Lane[] = [];

  constructor(open: () => ChannelGroup) {
    this.#open = open;
  }

  /** Takes a place in the first lane with room. Opens a lane if there is none. */
  enter(): Lane {
    let lane = this.#lanes.find(({ streams }) => streams < STREAMS);
    if (lane === undefined) {
      lane = { group: this.#open(), streams: 0 };
      this.#lanes.push(lane);
    }
    lane.streams += 1;
    return lane;
  }

  /** Returns the place. Closes an unused lane, except for the first one. */
  leave(lane: Lane): void {
    lane.streams -= 1;
    const index = this.#lanes.indexOf(lane);
    if (lane.streams > 0 || index < 1) return;
    this.#lanes.splice(index, 1);
    lane.group.close();
  }

  close(): void {
    for (const lane of this.#lanes) lane.group.close();
    this.#lanes.length = 0;
  }
}
