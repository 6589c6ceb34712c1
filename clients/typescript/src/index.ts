export { addressKey } from "./address.js";
export { type Admission, type Admitted, type AdmitOptions, type Refused, type Usage } from "./admission.js";
export { type Allocation, Allocator, type AllocatorOptions } from "./allocator.js";
export { type Ban } from "./ban.js";
export {
  type AdmitItem,
  type CompleteItem,
  type CompleteResult,
  type Failed,
  type RenewItem,
  type RenewResult,
} from "./bulk.js";
export { type RetryBudgetOptions } from "./core/budget.js";
export { type Clock } from "./core/clock.js";
export {
  type ErrorCode,
  type ErrorFacts,
  QuantityDiffersError,
  TollgateError,
  type Violation,
} from "./core/errors.js";
export { type CallOptions, type ConnectOptions, type RetryOptions, type TlsOptions } from "./core/options.js";
export { rateLimitHeaders, type RateLimitHeaders } from "./headers.js";
export { Held, type RenewOptions } from "./held.js";
export {
  type AcquireOptions,
  type Acquired,
  type Acquisition,
  type HeldByOther,
  Lock,
  Locks,
  type LockStatus,
  type ReleaseOutcome,
} from "./locks.js";
export {
  type CompleteOptions,
  type CompleteVerdict,
  type Outcome,
  Permit,
  type RenewVerdict,
  type TaskName,
} from "./permit.js";
export {
  type AttemptEnd,
  type CancelVerdict,
  type EnqueueStatus,
  type EvictVerdict,
  type LeaseInfo,
  type NewTask,
  Pool,
  type PoolSettings,
  type PoolStatus,
  type RequeueVerdict,
  type TaskInfo,
  type TaskState,
  type TokenOption,
} from "./pool.js";
export {
  type Algorithm,
  type Check,
  type CheckOptions,
  type KeyStatus,
  type Limit,
  Limiter,
  type LimitUsage,
  type OnFailure,
  type RateAnswer,
  Rates,
  type RateVerdict,
  type Rule,
  type Tier,
  type TierAction,
} from "./rates.js";
export { Reservation } from "./reservation.js";
export { type LastValue, type NextOptions, Sequences, type Values } from "./sequences.js";
export {
  type CancelOutcome,
  type ConfirmAnswer,
  type ConfirmOutcome,
  type ReservationState,
  type ReserveAnswer,
  type ReserveOptions,
  Stock,
  type StockLevel,
  type StockStatus,
} from "./stock.js";
export { Tollgate } from "./tollgate.js";
export {
  type PoolEvent,
  type PoolEventKind,
  type RateEvent,
  type RateEventKind,
  type WatchOptions,
} from "./watch.js";
export { type Handler, type Result, Worker, type WorkerOptions } from "./worker.js";
