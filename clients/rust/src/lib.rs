//! A client of Tollgate, on tonic and tokio.
//!
//! [`Connection`] is shared by all tasks of a program. Its calls return refusals as values; an
//! [`Error`] means that the server could not decide. Messages that need no conversion are those of
//! the contract ([`pb`]).
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tollgate_client::{Admission, Connection, Error, Outcome};
//!
//! async fn run() -> Result<(), Error> {
//!     let connection = Connection::open("http://127.0.0.1:50051").await?;
//!     let (pool, lease) = (connection.pool("ar:0571"), Some(Duration::from_secs(60)));
//!     match pool.admit("camera-1", "snapshot-1", lease).await?.0 {
//!         Admission::Admitted(permit) => {
//!             // Run the task.
//!             let token = permit.fencing_token;
//!             pool.complete("camera-1", "snapshot-1", token, Outcome::Succeeded).await?;
//!         }
//!         refused => println!("{refused:?}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! - [`Access`]: TLS, client certificate, token and namespace of a connection.
//! - [`Connection::health`]: whether a server is SERVING.
//! - [`Pool`]: admits and completes tasks, queues them, reads the state of a pool.
//! - [`Lock`]: acquires a lock, keeps its lease and releases it.
//! - [`Connection::check`], [`Connection::next`]: rates and sequences.
//! - [`Connection::reserve_stock`] and the other calls of stock.
//! - [`Connection::pools`], [`Pool::details`], [`Connection::ban`] and others: for operators.
//! - [`Connection::status`], [`Connection::reload_config`]: the server itself.
//! - [`Watch`]: the events of a pool or policy, over lost connections.

mod access;
mod admin;
mod connection;
mod error;
mod health;
mod lock;
mod operator;
mod pool;
mod rate;
mod sequence;
mod stock;
mod watch;

pub use access::Access;
pub use connection::{Connection, check_url};
pub use error::Error;
pub use health::Health;
pub use lock::{Acquisition, Lease, Lock, Lost};
pub use pb::{
    CancelOutcome, CompleteVerdict, ConfirmOutcome, DispatchedTask, EnqueueStatus, Outcome,
    PoolEvent, PoolEventKind, QueuedTask, RateEvent, RateEventKind, RateVerdict,
    ReleaseLockOutcome, ReservationState, ReserveOutcome, Stock, TaskState, Usage,
};
pub use pool::{Admission, Permit, Pool, PoolState};
pub use rate::Against;
pub use sequence::Serials;
pub use stock::Order;
pub use watch::{Event, Watch, Watched};

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
