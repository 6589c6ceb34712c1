import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema, type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";

/** Converts a duration to milliseconds; `undefined` counts as 0. */
export function milliseconds(duration: Duration | undefined): number {
  if (duration === undefined) return 0;
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** Converts milliseconds to a duration, rounded up to whole microseconds. */
export function duration(ms: number): Duration {
  if (!Number.isFinite(ms)) throw new RangeError(`a duration is ${String(ms)} ms; expected a finite number`);
  const micros = Math.ceil(ms * 1000);
  const seconds = Math.trunc(micros / 1e6);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: (micros - seconds * 1e6) * 1000 });
}

/** Converts milliseconds to a duration; `undefined` stays. */
export function optionalDuration(ms: number | undefined): Duration | undefined {
  return ms === undefined ? undefined : duration(ms);
}

/** Converts a timestamp to a date, cut to milliseconds. */
export function date(timestamp: Timestamp | undefined): Date | undefined {
  if (timestamp === undefined) return undefined;
  return new Date(Number(timestamp.seconds) * 1000 + Math.floor(timestamp.nanos / 1e6));
}

/** Converts a date to a timestamp. */
export function timestamp(time: Date): Timestamp {
  const ms = time.getTime();
  const seconds = Math.floor(ms / 1000);
  return create(TimestampSchema, { seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1e6 });
}

/** Converts text to UTF-8; bytes stay. */
export function bytes(value: Uint8Array | string | undefined): Uint8Array {
  if (typeof value === "string") return new TextEncoder().encode(value);
  return value ?? new Uint8Array();
}

/** The names of the values of an enum of the contract, without UNSPECIFIED. */
export type NameOf<Enum> = Exclude<keyof Enum, "UNSPECIFIED"> & string;

/** Returns the name of a value; "UNSPECIFIED" of a value that only a newer server knows. */
export function nameOf<Enum extends object>(names: Enum, value: number): NameOf<Enum> {
  return ((names as Record<number, string | undefined>)[value] ?? "UNSPECIFIED") as NameOf<Enum>;
}
