import {
  Allocator,
  Lock,
  type OnFailure,
  rateLimitHeaders,
  Reservation,
  type StockLevel,
} from "../src/index.js";
import { heldAnswer, leave, reportLoss } from "./admission.js";
import * as field from "./fields.js";
import type { Answer, Command } from "./session.js";

function stockAnswer({ onHand, available, reserved, sold }: StockLevel): Answer {
  return {
    on_hand: String(onHand),
    available: String(available),
    reserved: String(reserved),
    sold: String(sold),
  };
}

/** Commands about rates. */
export const rateCommands: Record<string, Command> = {
  check: async (session, fields, signal) => {
    const onFailure = (field.optionalText(fields, "on_failure") ?? "error") as OnFailure;
    const limiter = session.connection(fields).rates.limiter(field.text(fields, "policy"), { onFailure });
    const answer = await limiter.check(field.text(fields, "key"), {
      cost: field.optionalBig(fields, "cost"),
      requestId: field.optionalText(fields, "request_id"),
      signal,
    });
    const { allowed, verdict = "", replayed, degraded, retryAfterMs } = answer;
    const headers = rateLimitHeaders(answer);
    return { allowed, verdict, replayed, degraded, retry_after: field.seconds(retryAfterMs), headers };
  },
  get_key: async (session, fields, signal) => {
    const [key, policy] = [field.text(fields, "key"), field.text(fields, "policy")];
    const { limits, ban, strikes } = await session.connection(fields).rates.key(key, policy, { signal });
    const answers = limits.map(({ name, max, count, remaining }) => {
      return { name, max: String(max), count: String(count), remaining: String(remaining) };
    });
    return { limits: answers, banned: ban !== undefined, strikes };
  },
};

/** Commands about sequences. */
export const sequenceCommands: Record<string, Command> = {
  next: async (session, fields, signal) => {
    const values = await session.connection(fields).sequences.next(field.text(fields, "name"), {
      count: field.optionalNumber(fields, "count"),
      step: field.optionalBig(fields, "step"),
      floor: field.optionalBig(fields, "floor"),
      requestId: field.optionalText(fields, "request_id"),
      signal,
    });
    const { first, last, step, serials, replayed } = values;
    return { first: String(first), last: String(last), step: String(step), serials, replayed };
  },
  set_floor: async (session, fields, signal) => {
    const [name, floor] = [field.text(fields, "name"), field.big(fields, "floor")];
    return { applied: await session.connection(fields).sequences.setFloor(name, floor, { signal }) };
  },
  allocator: (session, fields) => {
    const options = { block: field.number(fields, "block") };
    session.put(fields, session.connection(fields).sequences.allocator(field.text(fields, "name"), options));
    return {};
  },
  allocate: async (session, fields) => {
    const { value, serial } = await session.get(fields, Allocator).next();
    return { value: String(value), serial };
  },
};

/** Commands about locks. */
export const lockCommands: Record<string, Command> = {
  lock: async (session, fields, signal) => {
    const acquisition = await session.connection(fields).locks.acquire(field.text(fields, "name"), {
      owner: field.optionalText(fields, "owner"),
      waitMs: field.optionalMs(fields, "wait"),
      leaseMs: field.optionalMs(fields, "lease"),
      keeper: field.optionalFlag(fields, "keeper"),
      signal,
    });
    if (acquisition.outcome === "HELD") {
      const { outcome, holder, retryAfterMs } = acquisition;
      return { outcome, holder, retry_after: retryAfterMs / 1000 };
    }
    const { lock } = acquisition;
    session.put(fields, lock);
    reportLoss(session, fields, lock);
    const validFor = lock.validForMs / 1000;
    return { outcome: "ACQUIRED", token: String(lock.token), replayed: lock.replayed, valid_for: validFor };
  },
  lock_state: (session, fields) => heldAnswer(session.get(fields, Lock)),
  unlock: async (session, fields, signal) => ({
    outcome: await session.get(fields, Lock).release({ signal }),
  }),
  leave_lock: (session, fields) => leave(fields, (body) => session.get(fields, Lock).use(body)),
};

/** Commands about stock. */
export const stockCommands: Record<string, Command> = {
  set_stock: async (session, fields, signal) => {
    const [sku, onHand] = [field.text(fields, "sku"), field.big(fields, "on_hand")];
    return stockAnswer(await session.connection(fields).stock.set(sku, onHand, { signal }));
  },
  add_stock: async (session, fields, signal) => {
    const [sku, delta] = [field.text(fields, "sku"), field.big(fields, "delta")];
    const options = { requestId: field.optionalText(fields, "request_id"), signal };
    const { stock, replayed } = await session.connection(fields).stock.add(sku, delta, options);
    return { ...stockAnswer(stock), replayed };
  },
  stock: async (session, fields, signal) => {
    const stock = await session.connection(fields).stock.get(field.text(fields, "sku"), { signal });
    return { ...stockAnswer(stock), holds: String(stock.holds) };
  },
  reserve: async (session, fields, signal) => {
    const [sku, order] = [field.text(fields, "sku"), field.text(fields, "order")];
    const answer = await session.connection(fields).stock.reserve(sku, order, field.big(fields, "quantity"), {
      holdMs: field.optionalMs(fields, "hold"),
      buyer: field.optionalText(fields, "buyer"),
      buyerLimit: field.optionalBig(fields, "buyer_limit"),
      signal,
    });
    const { outcome } = answer;
    if (outcome === "SHORT")
      return { outcome, replayed: false, retry_after: field.seconds(answer.retryAfterMs) };
    if (outcome !== "RESERVED") return { outcome, replayed: false };
    const { reservation } = answer;
    session.put(fields, reservation);
    return { outcome, replayed: reservation.replayed, valid_for: reservation.validForMs / 1000 };
  },
  confirm: async (session, fields, signal) => {
    const [sku, order] = [field.text(fields, "sku"), field.text(fields, "order")];
    const { outcome, retaken } = await session.connection(fields).stock.confirm(sku, order, { signal });
    return { outcome, retaken };
  },
  cancel_reservation: async (session, fields, signal) => {
    const [sku, order] = [field.text(fields, "sku"), field.text(fields, "order")];
    return { outcome: await session.connection(fields).stock.cancel(sku, order, { signal }) };
  },
  leave_reservation: async (session, fields) => {
    const reservation = session.take(fields, Reservation);
    return leave(fields, (body) =>
      reservation.use(async () => {
        if (field.optionalFlag(fields, "confirm") === true) await reservation.confirm();
        body();
      }),
    );
  },
};
