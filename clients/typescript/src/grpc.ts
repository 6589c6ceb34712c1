import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import {
  Metadata,
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
  type StatusObject,
} from "@grpc/grpc-js";
import { addressKey } from "./address.js";
import { duration } from "./core/convert.js";
import { asTollgateError } from "./core/errors.js";
import { RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";
import type { Limiter, RateAnswer } from "./rates.js";

/** A call to a gRPC server. */
export interface IncomingCall {
  /** Path of the method, for example `/shop.v1.OrderService/PlaceOrder`. */
  readonly path: string;
  /** Metadata of the call. */
  readonly metadata: Metadata;
  /** Address and port of the caller. */
  readonly peer: string;
}

/** Options of the interceptor. */
export interface RateLimitOptions {
  /**
   * Returns the key of a call; undefined lets the call pass unchecked. Default: `addressKey` of the
   * caller's address.
   */
  readonly key?: (call: IncomingCall) => string | undefined;
  /** Bits of an IPv6 address in the default key, 1 to 128. Default: 64. */
  readonly ipv6Prefix?: number;
}

/**
 * Interceptor for servers of `@grpc/grpc-js`. Refuses a call with RESOURCE_EXHAUSTED and RetryInfo.
 *
 * If the server of Tollgate cannot decide, the `onFailure` of the limiter decides: `open` lets the
 * call pass, `closed` refuses it, `error` fails it with UNAVAILABLE.
 */
export function rateLimit(limiter: Limiter, options: RateLimitOptions = {}): ServerInterceptor {
  const { ipv6Prefix, key: keyOf = ({ peer }: IncomingCall) => addressKey(host(peer), ipv6Prefix) } = options;
  return (method, call) => {
    const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, next) => {
      const key = keyOf({ path: method.path, metadata, peer: call.getPeer() });
      if (key === undefined) {
        next(metadata);
        return;
      }
      limiter.check(key).then(
        (answer) => {
          if (answer.allowed) next(metadata);
          else call.sendStatus(refusal(answer));
        },
        (error: unknown) => {
          limiter.log("the call gets UNAVAILABLE", error);
          const { message } = asTollgateError(error);
          call.sendStatus({
            code: status.UNAVAILABLE,
            details: `The rate limit cannot be checked: ${message}`,
          });
        },
      );
    });
    const responder = new ResponderBuilder().withStart((next) => {
      next(listener.build());
    });
    return new ServerInterceptingCall(call, responder.build());
  };
}

/** Returns the host of `host:port` or `[host]:port`. */
function host(peer: string): string {
  return peer.replace(/:\d+$/u, "").replace(/^\[|\]$/gu, "");
}

function refusal(answer: RateAnswer): StatusObject {
  const message = "The rate limit is reached.";
  const retryInfo = create(RetryInfoSchema, { retryDelay: duration(answer.retryAfterMs ?? 0) });
  const details = [anyPack(RetryInfoSchema, retryInfo)];
  const metadata = new Metadata();
  const bytes = toBinary(
    StatusSchema,
    create(StatusSchema, { code: status.RESOURCE_EXHAUSTED, message, details }),
  );
  metadata.set("grpc-status-details-bin", Buffer.from(bytes));
  return { code: status.RESOURCE_EXHAUSTED, details: message, metadata };
}
