//! A client of Tollgate, on tonic and tokio.
//!
//! [`Connection`] is shared by all tasks of a program. Its calls return refusals as values; an
//! [`Error`] means that the server could not decide. Messages that need no conversion are those of
//! the contract ([`pb`]).
//!
//! ```no_run
//! use tollgate_client::{Admission, Connection, Error, Outcome};
//!
//! # async fn run() -> Result<(), Error> {
//! let connection = Connection::open("http://127.0.0.1:50051").await?;
//! match connection.pool("ar:0571").admit("camera-1", "snapshot-1").await? {
//!     Admission::Admitted(permit) => {
//!         // Run the task.
//!         permit.complete(Outcome::Succeeded, "done").await?;
//!     }
//!     refused => println!("{refused:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`Options`]: several servers, certificates, token, namespace, deadline, budget of retries.
//! - [`Pool::admit`], [`Pool::poll`]: a [`Permit`] that is renewed, or a refusal.
//! - [`Pool::worker`]: runs the queued tasks of a device.
//! - [`Connection::admit_many`] and others: many tasks in few calls.
//! - [`Connection::limiter`], [`RateLayer`]: rates, also before a web server or a gRPC server.
//! - [`Connection::lock`]: a lock that is renewed and released on drop.
//! - [`Connection::next`], [`Connection::allocator`]: values of sequences.
//! - [`Connection::reserve`]: a reservation that is confirmed, or cancelled on drop.
//! - [`Watch`]: the events of a pool or policy, over lost connections.
//! - [`Connection::call`]: any call of the contract, with deadlines and retries.
//! - [`Connection::pools`], [`Connection::list_locks`], [`Pool::details`], [`Connection::ban`] and
//!   others: for operators.
//! - [`Connection::status`], [`Connection::reload_config`], [`Connection::accept_store_loss`],
//!   [`Connection::health`]: the server.
//! - [`Lock`]: a lock that is renewed step by step, over new connections after errors.
//!
//! Every object can be used from any task of a tokio runtime, and clones of a [`Connection`] share
//! one connection.

mod access;
mod address;
mod admin;
mod admit;
mod allocator;
mod bulk;
mod calls;
mod channels;
mod check_log;
mod claims;
mod clock;
mod closing;
mod connection;
mod error;
mod guard;
mod health;
mod held;
mod keeper;
mod lanes;
mod limiter;
mod lock;
mod middleware;
mod operator;
mod options;
mod permit;
mod pool;
mod random;
mod rate;
mod reservation;
mod retry;
mod sequence;
mod server;
mod stock;
mod token;
mod turns;
mod wait;
mod watch;
mod worker;

pub use access::Access;
pub use address::{IPV6_BITS, address_key};
pub use admit::Admit;
pub use allocator::{Allocator, Serial};
pub use bulk::Results;
pub use calls::Call;
#[doc(hidden)]
pub use clock::advance_clock;
pub use connection::Connection;
pub use error::{Error, Violation};
pub use guard::{LockGuard, LockRequest, Locking};
pub use health::Health;
pub use held::Held;
pub use limiter::{Limiter, Rate};
pub use lock::{Acquisition, Lease, Lock, Lost};
pub use middleware::{RateLayer, RateService, RequestParts};
pub use options::{Options, check_url};
pub use pb::{
    CancelOutcome, CancelVerdict, CompleteVerdict, ConfirmOutcome, DispatchedTask, EnqueueStatus,
    EvictVerdict, Outcome, PoolEvent, PoolEventKind, QueuedTask, RateEvent, RateEventKind,
    RateVerdict, ReleaseLockOutcome, RenewVerdict, ReservationState, ReserveOutcome, Stock,
    TaskState, Usage,
};
pub use permit::Permit;
pub use pool::{Admission, Grant, Pool, PoolState};
pub use rate::Against;
pub use reservation::{Reservation, Reserving};
pub use retry::RetryBudget;
pub use sequence::Serials;
pub use stock::Order;
pub use token::Token;
pub use watch::{Event, Watch, Watched};
pub use worker::{Work, Worker, WorkerHandle};

/// Generated messages and stubs.
#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/tollgate.v1.rs"));
}

/// Conversions between durations, times and their wire types.
pub mod time {
    use std::time::{Duration, Instant, SystemTime};

    use crate::Error;

    /// Converts a duration. Durations above the maximum of the wire type become the maximum.
    pub fn wire(length: Duration) -> prost_types::Duration {
        let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
        prost_types::Duration { seconds, nanos: length.subsec_nanos() as i32 }
    }

    /// Converts a duration of a response. `what` names the field in the error.
    pub fn length(length: Option<prost_types::Duration>, what: &str) -> Result<Duration, Error> {
        let length = length.and_then(|length| Duration::try_from(length).ok());
        length.ok_or_else(|| Error::malformed(what))
    }

    /// Converts a time of a response.
    pub fn time(time: Option<prost_types::Timestamp>) -> Result<SystemTime, Error> {
        let time = time.and_then(|time| SystemTime::try_from(time).ok());
        time.ok_or_else(|| Error::malformed("time"))
    }

    /// Reads the monotonic clock: the only place that does.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }
}
