import type { ChannelOptions } from "@grpc/grpc-js";
import { Claims } from "./claims.js";
import { RetryBudget } from "./core/budget.js";
import { Caller } from "./core/caller.js";
import { ChannelGroup, HealthWatch } from "./core/channels.js";
import { CheckLog } from "./core/checklog.js";
import { systemClock } from "./core/clock.js";
import { CallMetadata, channelCredentials } from "./core/credentials.js";
import { Lanes } from "./core/lanes.js";
import { type ConnectOptions, settings } from "./core/options.js";
import { Scheduler } from "./core/scheduler.js";
import { Server } from "./core/server.js";

/** Largest answer that is accepted, in bytes: a full batch of queued tasks. */
const LARGEST_ANSWER = 128 * 1024 * 1024;

/** Parts of a connection that the objects of the library share. */
export interface Core {
  readonly caller: Caller;
  readonly scheduler: Scheduler;
  readonly checks: CheckLog;
  readonly claims: Claims;
}

/** Opens the channels of a connection. Connects with the first call. */
export function openCore(
  addresses: readonly string[],
  options: ConnectOptions,
): Core & { close: () => void } {
  if (addresses.length === 0) throw new TypeError("addresses is empty; expected at least one address");
  const clock = options.clock ?? systemClock;
  const servers = addresses.map((address) => new Server(address, addresses.length === 1));
  const credentials = channelCredentials(options.tls);
  const open = (): ChannelGroup => new ChannelGroup(servers, credentials, channelOptions(options));
  const main = open();
  const watches =
    servers.length > 1 ? servers.map((server, index) => new HealthWatch(server, main.client(index))) : [];
  const lanes = new Lanes(open);
  const caller = new Caller({
    settings: settings(options),
    clock,
    metadata: new CallMetadata(options),
    budget: new RetryBudget(options.retryBudget),
    main,
    lanes,
  });
  const scheduler = new Scheduler(clock);
  const close = (): void => {
    caller.close();
    scheduler.close();
    for (const watch of watches) watch.close();
    for (const server of servers) server.close();
    lanes.close();
    main.close();
  };
  const checks = new CheckLog(options.log ?? console.warn);
  return { caller, scheduler, checks, claims: new Claims(caller), close };
}

function channelOptions(options: ConnectOptions): ChannelOptions {
  const serverName = options.tls === true ? undefined : options.tls?.serverName;
  return {
    // Groups do not share TCP connections.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
    "grpc.max_receive_message_length": LARGEST_ANSWER,
    // RetryInfo is honoured by the library; the retries of gRPC ignore it.
    "grpc.enable_retries": 0,
    ...(serverName === undefined
      ? {}
      : { "grpc.ssl_target_name_override": serverName, "grpc.default_authority": serverName }),
  };
}
