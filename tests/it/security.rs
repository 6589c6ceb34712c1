//! TLS, client certificates, callers and their rights, reloads, and peers with another protocol.

mod audit;
mod bytes;
mod callers;
mod commands;
mod documented;
mod headers;
mod key_set;
mod limits;
mod limits_redis;
mod matrix;
mod misfits;
mod namespaces;
mod refused;
mod reload;
mod rotation;
mod streams;
mod transport;
