import { type Pool, Tollgate } from "../src/index.js";
import { SteppedClock } from "../src/testing.js";
import { type Fields, optionalText, text } from "./fields.js";

/** An answer to a command: an object of JSON. */
export type Answer = Record<string, unknown>;

/** A command of the scenarios. */
export type Command = (session: Session, fields: Fields, signal: AbortSignal) => Answer | Promise<Answer>;

/** The objects of a runner: connections, and what the scenarios named with a handle. */
export class Session {
  readonly clock = new SteppedClock();
  readonly connections = new Map<string, Tollgate>();
  readonly #handles = new Map<string, object>();
  readonly #write: (line: Answer) => void;
  #closedRequests = 0;

  constructor(write: (line: Answer) => void) {
    this.#write = write;
  }

  /** Number of requests that were sent. */
  get requests(): number {
    return [...this.connections.values()].reduce(
      (sum, { requestsSent }) => sum + requestsSent,
      this.#closedRequests,
    );
  }

  /** Sends an event. */
  event(event: string, fields: Answer): void {
    this.#write({ event, ...fields });
  }

  /** Returns the connection of a command. */
  connection(fields: Fields): Tollgate {
    const name = optionalText(fields, "connection") ?? "main";
    const connection = this.connections.get(name);
    if (connection === undefined) throw new Error(`there is no connection ${name}`);
    return connection;
  }

  /** Returns the pool of a command. */
  pool(fields: Fields): Pool {
    return this.connection(fields).pool(text(fields, "pool"));
  }

  /** Closes the connection of a command. */
  close(fields: Fields): void {
    const connection = this.connection(fields);
    this.#closedRequests += connection.requestsSent;
    connection.close();
    this.connections.delete(optionalText(fields, "connection") ?? "main");
  }

  /** Names an object. */
  put(fields: Fields, object: object): void {
    this.#handles.set(text(fields, "handle"), object);
  }

  /** Returns the object of a handle. */
  get<T extends object>(fields: Fields, type: abstract new (...args: never[]) => T): T {
    const handle = text(fields, "handle");
    const object = this.#handles.get(handle);
    if (!(object instanceof type)) throw new Error(`${handle} is not the handle of a ${type.name}`);
    return object;
  }

  /** Returns the object of a handle, and forgets the handle. */
  take<T extends object>(fields: Fields, type: abstract new (...args: never[]) => T): T {
    const object = this.get(fields, type);
    this.#handles.delete(text(fields, "handle"));
    return object;
  }
}
