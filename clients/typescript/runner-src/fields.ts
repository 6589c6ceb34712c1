/** A command of the scenarios: a line of JSON. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns a text field; undefined if it is absent. */
export function optionalText(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw new TypeError(`${name} is ${JSON.stringify(value)}; expected text`);
  return value;
}

/** Returns a text field. */
export function text(fields: Fields, name: string): string {
  const value = optionalText(fields, name);
  if (value === undefined) throw new TypeError(`${name} is absent`);
  return value;
}

/** Returns a number; undefined if it is absent. */
export function optionalNumber(fields: Fields, name: string): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number")
    throw new TypeError(`${name} is ${JSON.stringify(value)}; expected a number`);
  return value;
}

/** Returns a number. */
export function number(fields: Fields, name: string): number {
  const value = optionalNumber(fields, name);
  if (value === undefined) throw new TypeError(`${name} is absent`);
  return value;
}

/** Returns a duration in milliseconds; the field has seconds. */
export function optionalMs(fields: Fields, name: string): number | undefined {
  const seconds = optionalNumber(fields, name);
  return seconds === undefined ? undefined : seconds * 1000;
}

/** Returns a 64-bit number: a number, or text of decimal digits. */
export function optionalBig(fields: Fields, name: string): bigint | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string" && typeof value !== "number") throw new TypeError(`${name} is not a number`);
  return BigInt(value);
}

/** Returns a 64-bit number. */
export function big(fields: Fields, name: string): bigint {
  const value = optionalBig(fields, name);
  if (value === undefined) throw new TypeError(`${name} is absent`);
  return value;
}

/** Returns a boolean; undefined if it is absent. */
export function optionalFlag(fields: Fields, name: string): boolean | undefined {
  const value = fields[name];
  return typeof value === "boolean" ? value : undefined;
}

/** Returns a list of objects. */
export function list(fields: Fields, name: string): Fields[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw new TypeError(`${name} is not a list`);
  return value as Fields[];
}

/** Milliseconds as seconds; undefined stays. */
export function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000;
}
