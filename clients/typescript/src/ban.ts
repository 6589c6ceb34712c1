import { date } from "./core/convert.js";
import type { Ban as BanMessage } from "./gen/tollgate/v1/rate_pb.js";

/** A running ban. */
export interface Ban {
  /** The banned key. */
  readonly key: string;
  /** When it ends, on the clock of the server. */
  readonly until: Date | undefined;
  readonly reason: string;
  /** Number of bans of the key, including this one. */
  readonly strikes: number;
  /** Who set it; empty for a ban by a rule. */
  readonly actor: string;
}

/** Reads a ban. */
export function readBan({ key, until, reason, strikes, actor }: BanMessage): Ban {
  return { key, until: date(until), reason, strikes, actor };
}
