import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../gen/google/rpc/status_pb.js";
import { milliseconds } from "./convert.js";

/** Name of a gRPC status code, for example `UNAVAILABLE`. */
export type ErrorCode = Exclude<keyof typeof status, "OK">;

/** A bad field of a request. */
export interface Violation {
  /** The field, for example `device_id` or `requests[3].device_id`. */
  readonly field: string;
  /** What was expected. */
  readonly description: string;
}

/** The details of an error. */
export interface ErrorFacts {
  readonly code: ErrorCode;
  readonly message: string;
  readonly reason?: string;
  readonly violations?: readonly Violation[];
  readonly retryAfterMs?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/**
 * The error of every failed call: the server could not decide, or could not be reached. A refusal
 * is an answer, not an error.
 */
export class TollgateError extends Error {
  override readonly name: string = "TollgateError";
  /** The gRPC status code. */
  readonly code: ErrorCode;
  /** The reason of ErrorInfo, for example `OVERLOADED`; empty if there is none. */
  readonly reason: string;
  /** The bad fields; empty unless the code is INVALID_ARGUMENT. */
  readonly violations: readonly Violation[];
  /** The delay in RetryInfo in milliseconds, after which the call should be repeated. */
  readonly retryAfterMs: number | undefined;
  /** Further metadata of ErrorInfo, such as `limit` and `value` of NAMESPACE_LIMIT. */
  readonly metadata: Readonly<Record<string, string>>;

  constructor(facts: ErrorFacts) {
    super(facts.message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.reason = facts.reason ?? "";
    this.violations = facts.violations ?? [];
    this.retryAfterMs = facts.retryAfterMs;
    this.metadata = facts.metadata ?? {};
  }

  /**
   * Whether a repeat of the call may succeed: UNAVAILABLE, DEADLINE_EXCEEDED, and
   * RESOURCE_EXHAUSTED with `retryAfterMs`.
   */
  get retryable(): boolean {
    if (this.code === "RESOURCE_EXHAUSTED") return this.retryAfterMs !== undefined;
    return this.code === "UNAVAILABLE" || this.code === "DEADLINE_EXCEEDED";
  }
}

/**
 * A reservation for an order that holds a different quantity, with the code FAILED_PRECONDITION and the
 * reason QUANTITY_DIFFERS. Nothing changed: confirm or cancel the order, or reserve under another one.
 */
export class QuantityDiffersError extends TollgateError {
  override readonly name = "QuantityDiffersError";
  /** The quantity that the order holds. */
  readonly heldQuantity: bigint;

  /** @internal */
  constructor(sku: string, order: string, heldQuantity: bigint) {
    super({
      code: "FAILED_PRECONDITION",
      reason: "QUANTITY_DIFFERS",
      message: `The order ${order} holds ${String(heldQuantity)} of ${sku}. Nothing changed.`,
    });
    this.heldQuantity = heldQuantity;
  }
}

/**
 * The error of grpc-js for a server that rejects plain text, and that of OpenSSL for a server
 * without TLS.
 */
const INSECURE = "Protocol not secure enough";
const NOT_TLS = /wrong version number/iu;

/** Reason of an error: the server uses TLS and the client does not, or vice versa. */
export const TLS_MISMATCH = "TLS_MISMATCH";

/** Returns the name of a status code; UNKNOWN for a number that gRPC does not define. */
export function codeName(code: number): ErrorCode {
  const name = (status as Record<number, string | undefined>)[code];
  return name === undefined || name === "OK" ? "UNKNOWN" : (name as ErrorCode);
}

/** Converts an error of grpc-js. */
export function fromServiceError(error: ServiceError): TollgateError {
  const facts: ErrorFacts = tlsMismatch(error) ?? {
    code: codeName(error.code),
    message: error.details,
    cause: error,
  };
  // Errors that the library raises itself have no metadata, whatever their type says.
  const metadata = error.metadata as Metadata | undefined;
  const [details] = metadata?.get("grpc-status-details-bin") ?? [];
  if (!Buffer.isBuffer(details)) return new TollgateError(facts);
  try {
    return new TollgateError({ ...facts, ...parseDetails(details) });
  } catch {
    return new TollgateError(facts);
  }
}

function tlsMismatch(error: ServiceError): ErrorFacts | undefined {
  const facts = { code: "UNAVAILABLE", reason: TLS_MISMATCH, cause: error } as const;
  if (error.code === status.PERMISSION_DENIED && error.details === INSECURE) {
    return { ...facts, message: "The server requires TLS. Set `tls`." };
  }
  if (error.code === status.UNAVAILABLE && NOT_TLS.test(error.details)) {
    return { ...facts, message: "The server does not use TLS. Leave out `tls`." };
  }
  return undefined;
}

/** Converts whatever was thrown. */
export function asTollgateError(error: unknown): TollgateError {
  if (error instanceof TollgateError) return error;
  if (error instanceof Error && "code" in error && typeof error.code === "number") {
    return fromServiceError(error as ServiceError);
  }
  const message = error instanceof Error ? error.message : String(error);
  return new TollgateError({ code: "UNKNOWN", message, cause: error });
}

/** The error of a call that its AbortSignal has cancelled. */
export function cancelled(signal?: AbortSignal): TollgateError {
  const message = "The call was cancelled by its signal.";
  return new TollgateError({ code: "CANCELLED", message, cause: signal?.reason });
}

/** The error of a call that the library does not send. */
export function badField(field: string, description: string): TollgateError {
  const message = `${field}: ${description}`;
  return new TollgateError({ code: "INVALID_ARGUMENT", message, violations: [{ field, description }] });
}

/** The error of an answer that this version does not know, or that lacks its lease. */
export function unknownAnswer(kind: string, value: number): TollgateError {
  const message = `The server answered ${kind} ${String(value)}, which this version of the library cannot use. Update the library.`;
  return new TollgateError({ code: "INTERNAL", reason: "ANSWER_UNKNOWN", message });
}

/** The error of a call on a closed connection. */
export function connectionClosed(): TollgateError {
  const message = "The connection is closed. Open a new one.";
  return new TollgateError({ code: "CANCELLED", reason: "CONNECTION_CLOSED", message });
}

function parseDetails(details: Buffer): Partial<ErrorFacts> {
  const facts: { -readonly [Key in keyof ErrorFacts]?: ErrorFacts[Key] } = {};
  for (const any of fromBinary(StatusSchema, details).details) {
    const info = anyUnpack(any, ErrorInfoSchema);
    if (info !== undefined) {
      facts.reason = info.reason;
      facts.metadata = { ...info.metadata };
    }
    const bad = anyUnpack(any, BadRequestSchema);
    if (bad !== undefined) {
      facts.violations = bad.fieldViolations.map(({ field, description }) => ({ field, description }));
    }
    const retry = anyUnpack(any, RetryInfoSchema);
    if (retry?.retryDelay !== undefined) facts.retryAfterMs = milliseconds(retry.retryDelay);
  }
  return facts;
}
