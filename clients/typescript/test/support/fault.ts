import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import {
  Metadata,
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  status,
} from "@grpc/grpc-js";
import { duration } from "../../src/core/convert.js";
import { codec, type Method } from "../../src/core/codec.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "../../src/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../src/gen/google/rpc/status_pb.js";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";

/** What a fault server answers to a call: a message, an error, or nothing. */
export type Reply<O extends DescMessage> = MessageInitShape<O> | Failure | "SILENCE";

/** An error with details. */
export class Failure {
  constructor(
    readonly code: status,
    readonly details: { reason?: string; retryAfterMs?: number; field?: string } = {},
  ) {}
}

/** A call that a fault server has received. */
export interface Received<I extends DescMessage> {
  readonly request: MessageShape<I>;
  readonly metadata: Metadata;
  /** Deadline of the call in milliseconds since 1970. */
  readonly deadline: Date | number;
}

/** A gRPC server whose answers a test decides. */
export class FaultServer implements AsyncDisposable {
  readonly #server = new Server();
  address = "";

  /** Answers a method with the results of `reply`, which gets the number of the call, from 1 on. */
  on<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    reply: (number: number, call: Received<I>) => Reply<O> | Promise<Reply<O>>,
  ): Received<I>[] {
    const calls: Received<I>[] = [];
    const { path } = codec(method);
    const handle = async (
      call: ServerUnaryCall<MessageShape<I>, MessageShape<O>>,
      answer: sendUnaryData<MessageShape<O>>,
    ): Promise<void> => {
      const received = { request: call.request, metadata: call.metadata, deadline: call.getDeadline() };
      calls.push(received);
      const made = await reply(calls.length, received);
      if (made === "SILENCE") return;
      if (made instanceof Failure) answer(toError(made));
      else answer(null, create(method.output, made));
    };
    const input = codec({ ...method, output: method.input });
    const output = codec({ ...method, input: method.output });
    this.#server.register(
      path,
      (call: ServerUnaryCall<MessageShape<I>, MessageShape<O>>, answer: sendUnaryData<MessageShape<O>>) =>
        void handle(call, answer),
      output.serialize,
      input.deserialize,
      "unary",
    );
    return calls;
  }

  async start(): Promise<this> {
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
    this.address = `127.0.0.1:${String(port)}`;
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
    return Promise.resolve();
  }
}

function toError({ code, details }: Failure): { code: status; details: string; metadata: Metadata } {
  const packed = [];
  if (details.reason !== undefined) {
    packed.push(
      anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason: details.reason, domain: "tollgate" })),
    );
  }
  if (details.retryAfterMs !== undefined) {
    const retryDelay = duration(details.retryAfterMs);
    packed.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  if (details.field !== undefined) {
    const fieldViolations = [{ field: details.field, description: "is required" }];
    packed.push(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  }
  const metadata = new Metadata();
  const message = `failed: ${status[code]}`;
  const bytes = toBinary(StatusSchema, create(StatusSchema, { code, message, details: packed }));
  metadata.set("grpc-status-details-bin", Buffer.from(bytes));
  return { code, details: message, metadata };
}
