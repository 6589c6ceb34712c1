//! Client stubs, for `tollgate fleet`, tests and examples in Rust.

/// Messages and clients of `tollgate.v1` in plain types.
#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/client/tollgate.v1.rs"));
}
