import * as field from "./fields.js";
import type { Fields } from "./fields.js";
import type { Answer, Command, Session } from "./session.js";

/** A watch that runs. */
class Watch {
  readonly stop = new AbortController();
}

/** Sends the events of a watch until it is stopped. */
function run<E>(
  session: Session,
  fields: Fields,
  name: string,
  watch: {
    readonly open: (options: { after: string | undefined; signal: AbortSignal }) => AsyncIterable<E>;
    readonly answer: (event: E) => Answer;
  },
): Answer {
  const handle = field.text(fields, "handle");
  const started = new Watch();
  session.put(fields, started);
  const events = watch.open({ after: field.optionalText(fields, "after"), signal: started.stop.signal });
  const follow = async (): Promise<void> => {
    for await (const event of events) session.event(name, { handle, ...watch.answer(event) });
  };
  follow().catch((error: unknown) => {
    process.stderr.write(`watch ${handle}: ${String(error)}\n`);
  });
  return {};
}

/** Commands about watches. */
export const watchCommands: Record<string, Command> = {
  watch_pool: (session, fields) => {
    const pool = session.pool(fields);
    return run(session, fields, "pool", {
      open: (options) => pool.watch(options),
      answer: ({ kind, cursor, device, task }) => ({ kind, cursor, device, task }),
    });
  },
  watch_rates: (session, fields) => {
    const { rates } = session.connection(fields);
    return run(session, fields, "rate", {
      open: (options) => rates.watch(field.text(fields, "policy"), options),
      answer: ({ kind, cursor, key }) => ({ kind, cursor, key }),
    });
  },
  watch_stop: (session, fields) => {
    session.take(fields, Watch).stop.abort();
    return {};
  },
};
