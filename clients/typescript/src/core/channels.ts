import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientReadableStream,
  connectivityState,
  Metadata,
} from "@grpc/grpc-js";
import {
  Health,
  type HealthCheckRequest,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../gen/grpc/health/v1/health_pb.js";
import type { Server } from "./server.js";

/** Pause before the health of a server is requested again, in milliseconds. */
const HEALTH_PAUSE_MS = 1000;

/** A server, and a connection to it. */
export interface Picked {
  readonly server: Server;
  readonly client: Client;
}

/** Channels to all servers, used by rotation. */
export class ChannelGroup {
  readonly #servers: readonly Server[];
  readonly #clients: readonly Client[];
  #next: number;

  constructor(servers: readonly Server[], credentials: ChannelCredentials, options: ChannelOptions) {
    this.#servers = servers;
    this.#clients = servers.map(({ address }) => new Client(address, credentials, options));
    // Clients that start together do not all begin with the first server.
    this.#next = Math.floor(Math.random() * servers.length);
  }

  /**
   * Returns the next server that is usable and whose last connection did not fail. Returns the next
   * server if there is none. Throws if that has the other protocol.
   */
  pick(): Picked {
    const count = this.#clients.length;
    let index = this.#next;
    for (let tried = 1; tried < count && !this.#usable(index); tried += 1) index = (index + 1) % count;
    if (!this.#usable(index)) index = this.#next;
    this.#next = (index + 1) % count;
    const server = this.#servers[index];
    if (server === undefined) throw new RangeError("there is no server");
    server.check();
    return { server, client: this.client(index) };
  }

  /** Returns the client of a server. */
  client(index: number): Client {
    const client = this.#clients[index];
    if (client === undefined) throw new RangeError(`there is no server ${String(index)}`);
    return client;
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #usable(index: number): boolean {
    const state = this.client(index).getChannel().getConnectivityState(false);
    return this.#servers[index]?.usable === true && state !== connectivityState.TRANSIENT_FAILURE;
  }
}

/** Follows the health of a server. A server without a health service counts as serving. */
export class HealthWatch {
  readonly #server: Server;
  readonly #client: Client;
  #stream: ClientReadableStream<HealthCheckResponse> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(server: Server, client: Client) {
    this.#server = server;
    this.#client = client;
    this.#open();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#stream?.cancel();
  }

  #open(): void {
    this.#stream = this.#client.makeServerStreamRequest(
      `/${Health.typeName}/${Health.method.watch.name}`,
      (message: HealthCheckRequest) => Buffer.from(toBinary(HealthCheckRequestSchema, message)),
      (message: Buffer) => fromBinary(HealthCheckResponseSchema, message),
      { $typeName: "grpc.health.v1.HealthCheckRequest", service: "" },
      new Metadata({ waitForReady: true }),
    );
    this.#stream.on("data", ({ status }: HealthCheckResponse) => {
      this.#server.serving = status === HealthCheckResponse_ServingStatus.SERVING;
    });
    this.#stream.on("error", () => {
      // The state of the channel says whether the server is reachable.
      this.#server.serving = true;
      this.#reopenLater();
    });
    this.#stream.on("end", () => {
      this.#server.serving = true;
    });
  }

  #reopenLater(): void {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#open();
    }, HEALTH_PAUSE_MS);
    this.#timer.unref();
  }
}
