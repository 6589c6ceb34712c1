import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { type ClientReadableStream, type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { onAbort } from "./abort.js";
import type { RetryBudget } from "./budget.js";
import type { ChannelGroup, Picked } from "./channels.js";
import type { Clock } from "./clock.js";
import { codec, type Method } from "./codec.js";
import type { CallMetadata } from "./credentials.js";
import { asTollgateError, cancelled, connectionClosed, fromServiceError, TollgateError } from "./errors.js";
import type { Lanes } from "./lanes.js";
import type { CallOptions, Settings } from "./options.js";
import { Turns } from "./turns.js";

/**
 * Fraction of a deadline: a call that is cancelled this close to the deadline counts as not
 * answered in time.
 */
const NEARLY = 0.05;

/** An answer, and when its request was sent. */
export interface Answer<T> {
  readonly message: T;
  /** The clock before the request was sent. A retried call has the time of its last attempt. */
  readonly sentAt: number;
}

/** What a `Caller` needs. */
export interface CallerParts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly metadata: CallMetadata;
  readonly budget: RetryBudget;
  readonly main: ChannelGroup;
  readonly lanes: Lanes;
}

/** Sends the calls of a connection: metadata, deadline, cancellation and retries. */
export class Caller {
  readonly clock: Clock;
  readonly settings: Settings;
  readonly #parts: CallerParts;
  /** Functions that cancel the pending calls when the connection closes. */
  readonly #pending = new Set<() => void>();
  readonly #turns = new Turns();
  #sent = 0;
  #closed = false;

  constructor(parts: CallerParts) {
    this.#parts = parts;
    this.clock = parts.clock;
    this.settings = parts.settings;
  }

  /** Number of requests sent. */
  get sent(): number {
    return this.#sent;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Cancels all pending calls. Later calls fail. */
  close(): void {
    this.#closed = true;
    for (const cancel of [...this.#pending]) cancel();
  }

  /** Sends a call that is safe to repeat. Retries it within the budget. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    init: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<Answer<MessageShape<O>>> {
    const request = create(method.input, init);
    this.#parts.budget.deposit();
    for (let attempt = 1; ; attempt += 1) {
      let failure: TollgateError;
      const end = await this.#turns.take(method.name, options.signal);
      try {
        return await this.#send(this.#parts.main.pick(), method, request, options);
      } catch (thrown) {
        failure = asTollgateError(thrown);
      } finally {
        end();
      }
      if (attempt >= this.settings.retry.attempts || !this.mayRetry(failure)) throw failure;
      if (!this.#parts.budget.withdraw()) throw failure;
      await this.sleep(this.pauseMs(attempt, failure), options.signal);
    }
  }

  /** Sends a call once, without retries. */
  async once<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    init: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<Answer<MessageShape<O>>> {
    return this.#send(this.#parts.main.pick(), method, create(method.input, init), options);
  }

  /** Sends a waiting call once, on a connection for waits. */
  async wait<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    init: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<Answer<MessageShape<O>>> {
    const lane = this.#parts.lanes.enter();
    try {
      return await this.#send(lane.group.pick(), method, create(method.input, init), options);
    } finally {
      this.#parts.lanes.leave(lane);
    }
  }

  /** Opens a stream on a connection for waits, reads it to its end, and yields the messages. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    init: MessageInitShape<I>,
    options: CallOptions & { readonly onOpen: () => void },
  ): AsyncGenerator<MessageShape<O>, void, undefined> {
    this.#check(options.signal);
    const { path, serialize, deserialize } = codec(method);
    const metadata = await this.#parts.metadata.make(this.settings.deadlineMs);
    this.#check(options.signal);
    const lane = this.#parts.lanes.enter();
    this.#sent += 1;
    const request = create(method.input, init);
    const { client } = lane.group.pick();
    const stream = client.makeServerStreamRequest(path, serialize, deserialize, request, metadata);
    stream.on("metadata", options.onOpen);
    const release = this.#cancelWith(stream, options.signal);
    try {
      yield* stream as AsyncIterable<MessageShape<O>>;
    } catch (error) {
      this.#check(options.signal);
      throw asTollgateError(error);
    } finally {
      release();
      stream.on("error", () => undefined);
      stream.cancel();
      this.#parts.lanes.leave(lane);
    }
  }

  /** Whether a failed call may be repeated: the error allows it, and its RetryInfo is short. */
  mayRetry(error: TollgateError): boolean {
    const retryAfterMs = error.retryAfterMs ?? 0;
    return error.retryable && retryAfterMs <= this.settings.retry.longestRetryAfterMs;
  }

  /**
   * Returns the pause before a retry, in milliseconds: exponential backoff with full jitter, after
   * the time of RetryInfo.
   * @param retry number of the retry, from 1 on
   */
  pauseMs(retry: number, error?: TollgateError): number {
    const { firstPauseMs, longestPauseMs } = this.settings.retry;
    const bound = Math.min(firstPauseMs * 2 ** Math.min(retry - 1, 30), longestPauseMs);
    return (error?.retryAfterMs ?? 0) + Math.random() * bound;
  }

  /** Waits. Fails with CANCELLED when the signal is aborted or the connection closes. */
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.#check(signal);
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#pending.delete(done);
        release();
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#pending.add(done);
      const release = onAbort(signal, done);
    });
    this.#check(signal);
  }

  /** Waits, until the signal is aborted or the connection closes. Does not keep the process alive. */
  async idle(ms: number, signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#pending.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms).unref();
      this.#pending.add(done);
      onAbort(signal, done);
    });
  }

  async #send<I extends DescMessage, O extends DescMessage>(
    { server, client }: Picked,
    method: Method<I, O>,
    request: MessageShape<I>,
    options: CallOptions,
  ): Promise<Answer<MessageShape<O>>> {
    this.#check(options.signal);
    const deadlineMs = options.deadlineMs ?? this.settings.deadlineMs;
    const deadline = Date.now() + deadlineMs;
    const metadata: Metadata = await this.#parts.metadata.make(deadlineMs);
    this.#check(options.signal);
    const { path, serialize, deserialize } = codec(method);
    this.#sent += 1;
    const sentAt = this.clock.now();
    return new Promise((resolve, reject) => {
      const answered = (error: ServiceError | null, message?: MessageShape<O>): void => {
        release();
        if (error !== null) {
          // A limiter that decides after one deadline cancels the call just before.
          const late =
            error.code === status.DEADLINE_EXCEEDED || Date.now() >= deadline - deadlineMs * NEARLY;
          server.failed(fromServiceError(error), late, client);
          reject(this.#failure(error, options.signal));
          return;
        }
        server.answered();
        if (message === undefined)
          reject(new TollgateError({ code: "INTERNAL", message: "The answer is empty." }));
        else resolve({ message, sentAt });
      };
      const call = client.makeUnaryRequest(
        path,
        serialize,
        deserialize,
        request,
        metadata,
        { deadline },
        answered,
      );
      const release = this.#cancelWith(call, options.signal);
    });
  }

  /** Cancels a call with its signal or with the connection. Returns a function that ends this. */
  #cancelWith(
    call: Pick<ClientReadableStream<unknown>, "cancel">,
    signal: AbortSignal | undefined,
  ): () => void {
    const cancel = (): void => {
      call.cancel();
    };
    this.#pending.add(cancel);
    const release = onAbort(signal, cancel);
    return () => {
      this.#pending.delete(cancel);
      release();
    };
  }

  #failure(error: ServiceError, signal: AbortSignal | undefined): TollgateError {
    if (signal?.aborted === true) return cancelled(signal);
    return this.#closed ? connectionClosed() : fromServiceError(error);
  }

  #check(signal: AbortSignal | undefined): void {
    if (this.#closed) throw connectionClosed();
    if (signal?.aborted === true) throw cancelled(signal);
  }
}
