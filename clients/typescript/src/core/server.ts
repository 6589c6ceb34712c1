import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Client, type ServiceError, status } from "@grpc/grpc-js";
import {
  Health,
  type HealthCheckRequest,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../gen/grpc/health/v1/health_pb.js";
import { TLS_MISMATCH, TollgateError } from "./errors.js";

/**
 * Consecutive deadlines after which one of several servers gets no calls until a health check
 * succeeds.
 */
const LATE_MAX = 2;
/** Pause between two health checks of such a server, and the deadline of each, in milliseconds. */
const CHECK_PAUSE_MS = 500;
const CHECK_TIMEOUT_MS = 2000;
/** Time without calls to a server with the other protocol, in milliseconds; doubled up to the last. */
const REFUSED_FIRST_MS = 1000;
const REFUSED_LAST_MS = 10_000;
/** Codes of a health check with which a server answers, but has no health for this caller. */
const ANSWERING = [status.UNIMPLEMENTED, status.UNAUTHENTICATED, status.PERMISSION_DENIED];

/** A server: its address, and what is known about its health. All connections to it share this. */
export class Server {
  readonly address: string;
  /** Whether it says that it serves. */
  serving = true;
  readonly #alone: boolean;
  #late = 0;
  #hanging = false;
  #hint = "";
  #refusedUntil = 0;
  #pauseMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param alone whether there is no other server */
  constructor(address: string, alone = true) {
    this.address = address;
    this.#alone = alone;
  }

  /** Whether it takes calls: it answers, serves, and has the same protocol. */
  get usable(): boolean {
    return this.serving && !this.#hanging && !this.#isRefusing();
  }

  /** Throws during the pause after a call to a server with the other protocol. */
  check(): void {
    if (!this.#isRefusing()) return;
    const seconds = ((this.#refusedUntil - performance.now()) / 1000).toFixed(1);
    const message = `${this.#hint} ${this.address} is tried again in ${seconds} s.`;
    throw new TollgateError({ code: "UNAVAILABLE", reason: TLS_MISMATCH, message });
  }

  /** Records that the server has answered a call. */
  answered(): void {
    this.#late = 0;
    this.#hint = "";
    this.#pauseMs = 0;
  }

  /** Records a failed call on a connection. `late`: it had no answer within its deadline. */
  failed(error: TollgateError, late: boolean, client: Client): void {
    if (late) {
      this.#late += 1;
      if (this.#late >= LATE_MAX && !this.#alone && !this.#hanging) {
        this.#hanging = true;
        this.#checkHealth(client);
      }
    } else if (error.reason === TLS_MISMATCH) {
      this.#refuse(error.message);
    } else if (error.code !== "UNAVAILABLE" && error.code !== "CANCELLED") {
      this.answered();
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #isRefusing(): boolean {
    return this.#hint !== "" && performance.now() < this.#refusedUntil;
  }

  #refuse(hint: string): void {
    if (this.#isRefusing()) return;
    this.#hint = hint;
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, REFUSED_FIRST_MS), REFUSED_LAST_MS);
    this.#refusedUntil = performance.now() + this.#pauseMs;
  }

  /** Checks the health of a server that does not answer, until a check succeeds. */
  #checkHealth(client: Client): void {
    if (this.#closed) return;
    const ended = (error: ServiceError | null, answer?: HealthCheckResponse): void => {
      const serving = answer?.status === HealthCheckResponse_ServingStatus.SERVING;
      if (serving || (error !== null && ANSWERING.includes(error.code))) {
        this.#late = 0;
        this.#hanging = false;
        return;
      }
      this.#timer = setTimeout(() => {
        this.#checkHealth(client);
      }, CHECK_PAUSE_MS);
      this.#timer.unref();
    };
    client.makeUnaryRequest(
      `/${Health.typeName}/${Health.method.check.name}`,
      (message: HealthCheckRequest) => Buffer.from(toBinary(HealthCheckRequestSchema, message)),
      (message: Buffer) => fromBinary(HealthCheckResponseSchema, message),
      { $typeName: "grpc.health.v1.HealthCheckRequest", service: "" },
      { deadline: Date.now() + CHECK_TIMEOUT_MS },
      ended,
    );
  }
}
