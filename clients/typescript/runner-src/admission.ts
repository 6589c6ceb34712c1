import {
  type Admission,
  type AdmitOptions,
  type CompleteOptions,
  type Held,
  Permit,
  type PoolStatus,
  type TollgateError,
  Worker,
} from "../src/index.js";
import { setTimeout as pause } from "node:timers/promises";
import { errorAnswer } from "./errors.js";
import * as field from "./fields.js";
import type { Fields } from "./fields.js";
import type { Answer, Command, Session } from "./session.js";

function admitOptions(fields: Fields, signal: AbortSignal): AdmitOptions {
  return {
    signal,
    waitMs: field.optionalMs(fields, "wait"),
    leaseMs: field.optionalMs(fields, "lease"),
    keeper: field.optionalFlag(fields, "keeper"),
  };
}

/** Sends the event `lost` once the lease is lost. */
export function reportLoss(session: Session, fields: Fields, held: Held): void {
  const handle = field.text(fields, "handle");
  held.signal.addEventListener("abort", () => {
    session.event("lost", { handle });
  });
  if (held.lost) session.event("lost", { handle });
}

/** The state of a permit or a lock. */
export function heldAnswer(held: Held): Answer {
  return { valid: held.valid, lost: held.lost, valid_for: held.validForMs / 1000, token: String(held.token) };
}

function admitted(session: Session, fields: Fields, admission: Admission): Answer {
  if (admission.outcome !== "ADMITTED") {
    return { outcome: admission.outcome, retry_after: field.seconds(admission.retryAfterMs) };
  }
  const { permit } = admission;
  session.put(fields, permit);
  const answer: Answer = {
    outcome: admission.outcome,
    token: String(permit.token),
    replayed: permit.replayed,
    valid_for: permit.validForMs / 1000,
  };
  reportLoss(session, fields, permit);
  if (permit.payload === undefined) return answer;
  const payload = Buffer.from(permit.payload).toString();
  return { ...answer, task: permit.task, payload, attempt: permit.attempt };
}

/** Leaves a scope, whose body fails if the command says so. */
export async function leave(fields: Fields, scope: (body: () => void) => Promise<unknown>): Promise<Answer> {
  const failure = new Error("the body failed");
  try {
    await scope(() => {
      if (field.optionalFlag(fields, "failed") === true) throw failure;
    });
    return { delivered: false };
  } catch (error) {
    if (error !== failure) throw error;
    return { delivered: true };
  }
}

function completeOptions(fields: Fields): CompleteOptions {
  const outcome = field.optionalText(fields, "outcome") as CompleteOptions["outcome"];
  return { outcome, result: field.optionalText(fields, "result") };
}

function poolAnswer(status: PoolStatus): Answer {
  const { capacity, inUse, available, paused, waiters, queued } = status;
  return { capacity, in_use: inUse, available, paused, waiters, queued: String(queued) };
}

function taskName(item: Fields): { pool: string; device: string; task: string } {
  return {
    pool: field.text(item, "pool"),
    device: field.text(item, "device"),
    task: field.optionalText(item, "task") ?? "",
  };
}

function failedAnswer(result: { readonly error: TollgateError }): Answer {
  return { error: errorAnswer(result.error) };
}

/** Commands about permits and tasks. */
export const taskCommands: Record<string, Command> = {
  admit: async (session, fields, signal) => {
    const pool = session.pool(fields);
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    return admitted(session, fields, await pool.admit(device, task, admitOptions(fields, signal)));
  },
  poll: async (session, fields, signal) => {
    const options = admitOptions(fields, signal);
    return admitted(session, fields, await session.pool(fields).poll(field.text(fields, "device"), options));
  },
  permit: (session, fields) => heldAnswer(session.get(fields, Permit)),
  complete: async (session, fields, signal) => {
    const permit = session.get(fields, Permit);
    return { verdict: await permit.complete({ ...completeOptions(fields), signal }) };
  },
  leave: async (session, fields) => {
    return leave(fields, (body) => session.get(fields, Permit).use(body));
  },
  complete_task: async (session, fields, signal) => {
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    const options = { ...completeOptions(fields), token: field.optionalBig(fields, "token"), signal };
    return { verdict: await session.pool(fields).complete(device, task, options) };
  },
  renew_task: async (session, fields, signal) => {
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    const options = {
      token: field.optionalBig(fields, "token"),
      leaseMs: field.optionalMs(fields, "lease"),
      signal,
    };
    const { verdict, validForMs } = await session.pool(fields).renew(device, task, options);
    return verdict === "RENEWED" ? { verdict, valid_for: validForMs / 1000 } : { verdict };
  },
  evict: async (session, fields, signal) => {
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    return session.pool(fields).evict(device, task, { signal });
  },
  cancel_task: async (session, fields, signal) => {
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    return session.pool(fields).cancel(device, task, { signal });
  },
  requeue_task: async (session, fields, signal) => {
    const [device, task] = [field.text(fields, "device"), field.text(fields, "task")];
    return { verdict: await session.pool(fields).requeue(device, task, { signal }) };
  },
};

/** Commands about several tasks. */
export const bulkCommands: Record<string, Command> = {
  admit_many: async (session, fields, signal) => {
    const items = field.list(fields, "items").map((item) => {
      return { ...taskName(item), leaseMs: field.optionalMs(item, "lease"), keeper: false };
    });
    const results = await session.connection(fields).admitMany(items, { signal });
    return {
      results: results.map((result) => {
        if (result.outcome === "ERROR") return failedAnswer(result);
        const token = result.outcome === "ADMITTED" ? String(result.permit.token) : undefined;
        return { outcome: result.outcome, token };
      }),
    };
  },
  complete_many: async (session, fields, signal) => {
    const items = field.list(fields, "items").map((item) => {
      return { ...taskName(item), ...completeOptions(item), token: field.optionalBig(item, "token") };
    });
    const results = await session.connection(fields).completeMany(items, { signal });
    return {
      results: results.map((result) =>
        result.outcome === "ERROR" ? failedAnswer(result) : { verdict: result.outcome },
      ),
    };
  },
  renew_many: async (session, fields, signal) => {
    const items = field.list(fields, "items").map((item) => {
      return {
        ...taskName(item),
        token: field.optionalBig(item, "token"),
        leaseMs: field.optionalMs(item, "lease"),
      };
    });
    const results = await session.connection(fields).renewMany(items, { signal });
    return {
      results: results.map((result) =>
        result.outcome === "ERROR" ? failedAnswer(result) : { verdict: result.outcome },
      ),
    };
  },
  enqueue: async (session, fields, signal) => {
    const tasks = field.list(fields, "tasks").map((item) => {
      const [device, task] = [field.text(item, "device"), field.text(item, "task")];
      return { device, task, payload: field.optionalText(item, "payload") };
    });
    return { statuses: await session.pool(fields).enqueue(tasks, { signal }) };
  },
};

/** Commands about pools and workers. */
export const poolCommands: Record<string, Command> = {
  pool: async (session, fields, signal) => poolAnswer(await session.pool(fields).status({ signal })),
  configure: async (session, fields, signal) => {
    const settings = {
      capacity: field.optionalNumber(fields, "capacity"),
      paused: field.optionalFlag(fields, "paused"),
      leaseMs: field.optionalMs(fields, "lease"),
      graceMs: field.optionalMs(fields, "grace"),
    };
    return poolAnswer(await session.pool(fields).configure(settings, { signal }));
  },
  worker_start: (session, fields) => {
    const handle = field.text(fields, "handle");
    const work = field.optionalMs(fields, "work") ?? 0;
    const worker = session.pool(fields).worker(
      field.text(fields, "device"),
      async (permit, signal) => {
        session.event("task", { handle, task: permit.task, attempt: permit.attempt });
        await pause(work, undefined, { signal });
        if (field.optionalFlag(fields, "fail") === true) throw new Error("the task failed");
      },
      {
        ...(field.optionalMs(fields, "lease") === undefined
          ? {}
          : { leaseMs: field.optionalMs(fields, "lease") }),
        onDone: ({ task }, verdict) => {
          session.event("done", { handle, task, verdict });
        },
        onError: (error) => {
          process.stderr.write(`${String(error)}\n`);
        },
      },
    );
    session.put(fields, worker.start());
    return {};
  },
  worker_stop: async (session, fields) => {
    const worker = session.take(fields, Worker);
    await worker.stop();
    return { done: worker.done };
  },
};
