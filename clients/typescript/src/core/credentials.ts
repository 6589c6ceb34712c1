import { readFileSync, statSync } from "node:fs";
import { type ChannelCredentials, credentials, Metadata } from "@grpc/grpc-js";
import { badField, TollgateError } from "./errors.js";
import type { ConnectOptions } from "./options.js";

/** The values that a header can carry. */
const PRINTABLE = /^[ -~]*$/;
const EXPECTED = "expected printable ASCII characters";

/** Returns the credentials of the channels. */
export function channelCredentials(tls: ConnectOptions["tls"]): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  if (tls === true) return credentials.createSsl();
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new TypeError("tls has one of cert and key; set both or none");
  }
  return credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert));
}

function pem(value: string | Buffer | undefined): Buffer | null {
  return value === undefined ? null : Buffer.from(value);
}

/** Makes the metadata of calls: token and namespace. */
export class CallMetadata {
  readonly #namespace: string | undefined;
  readonly #token: () => string | undefined | Promise<string>;

  constructor(options: ConnectOptions) {
    const { namespace, token, tokenFile } = options;
    if (typeof token === "string" && !PRINTABLE.test(token)) throw badField("token", EXPECTED);
    if (namespace !== undefined && !PRINTABLE.test(namespace)) throw badField("namespace", EXPECTED);
    this.#namespace = namespace;
    if (tokenFile !== undefined) {
      const file = new TokenFile(tokenFile);
      this.#token = () => file.token();
    } else {
      this.#token = typeof token === "function" ? token : () => token;
    }
  }

  /**
   * Returns new metadata. Fails with UNAUTHENTICATED if the token cannot be obtained, and with
   * DEADLINE_EXCEEDED if that takes longer than the deadline in milliseconds.
   */
  async make(deadlineMs: number): Promise<Metadata> {
    const metadata = new Metadata();
    let token: string | undefined;
    try {
      const answer = this.#token();
      token = typeof answer === "object" ? await within(answer, deadlineMs) : answer;
      if (token !== undefined && !PRINTABLE.test(token)) throw new TypeError(EXPECTED);
    } catch (cause) {
      if (cause instanceof TollgateError) throw cause;
      const message = `The token cannot be obtained: ${cause instanceof Error ? cause.message : String(cause)}`;
      throw new TollgateError({ code: "UNAUTHENTICATED", reason: "TOKEN_UNAVAILABLE", message, cause });
    }
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    if (this.#namespace !== undefined) metadata.set("x-tollgate-namespace", this.#namespace);
    return metadata;
  }
}

function within(token: Promise<string>, deadlineMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const message = "The token was not returned in time.";
      reject(new TollgateError({ code: "DEADLINE_EXCEEDED", reason: "TOKEN_LATE", message }));
    }, deadlineMs);
    void Promise.resolve(token)
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer);
      });
  });
}

/** A file with a token. A changed file is read again. */
class TokenFile {
  readonly #path: string;
  #version = "";
  #token = "";

  constructor(path: string) {
    this.#path = path;
  }

  token(): string {
    const { ino, mtimeNs, size } = statSync(this.#path, { bigint: true });
    const version = `${String(ino)} ${String(mtimeNs)} ${String(size)}`;
    if (version !== this.#version) {
      this.#token = readFileSync(this.#path, "utf8").trim();
      this.#version = version;
    }
    return this.#token;
  }
}
