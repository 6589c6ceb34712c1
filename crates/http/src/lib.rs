//! A gRPC server on hyper: one runtime per thread, TLS, limits on connections and peers, load
//! shedding, and a fast path for unary calls. It knows gRPC, but not the rules and engines of
//! Tollgate.
//!
//! A program implements [`Program`] (its RPCs, and the rights, quotas and spans of calls), builds a
//! [`Router`] of its services, starts [`Workers`] and runs [`accept()`], as
//! `crates/http/tests/echo/program.rs` does.
//!
//! # Layout, in the order in which a call passes the parts
//! - [`accept()`]: connections, within the limits of the server and of its [`Peers`]
//! - `workers`: the threads. `connections`, `pace`, `header_table` and `http1`: the bytes of a
//!   connection. [`tls`]: certificates and handshakes. `streams`: the tasks of streams
//! - `router`: headers (`protocol`), rights, service. `traced`: calls with a span
//! - `fast_path`: the message, the handler, the answer; or tonic
//!
//! # Limits
//! - [`TransportLimits`]: their values. `adjustable`: limits that change while callers use them
//! - `permits`: bytes and streams of a connection, its peer and the server
//! - `shedding`: the queue of a thread, and calls that cannot be answered in time
//! - `unsent`: chunks that a caller does not read
//! - [`Rejections`]: the errors of all of these
//!
//! All parts of a call run on one thread, so `shedding` and `unsent` are thread-locals.

mod accept;
mod adjustable;
mod connections;
pub mod deadline;
mod fast_path;
mod header_table;
mod http1;
mod identity;
mod limits;
mod on_sent;
mod pace;
mod peers;
mod permits;
mod program;
mod protocol;
mod rejections;
mod router;
mod shedding;
mod stream;
mod streams;
pub mod tls;
mod traced;
mod unsent;
mod workers;

pub use accept::{ConnectionPlaces, accept};
pub use fast_path::{AnswerBody, FastPath, frame};
pub use identity::CertificateNames;
pub use limits::TransportLimits;
pub use on_sent::OnSent;
pub use peers::{CONNECTION_COST, Peers, network};
pub use program::{AnswerObserver, Authorized, Program, Route, SampledCall};
pub use rejections::Rejections;
pub use router::{InProcessAnswer, MESSAGE_BYTES_MAX, Router, Service};
pub use workers::Workers;
