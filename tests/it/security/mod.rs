//! Transport: TLS, client certificates, their reload, and peers that do not fit.

mod commands;
mod documented;
mod limits;
mod misfits;
mod refused;
mod reload;
mod transport;
