//! The targets of the fuzzer. Only tests and the program in `fuzz/` compile this module.

use crate::{config, grpc};
use tollgate_engine as engine;

/// Runs one input. A fault is a panic.
pub type Target = fn(&[u8]);

/// The targets by name. The corpus, `fuzz/corpus.tar.gz`, contains a folder for each.
pub const TARGETS: [(&str, Target); 6] = [
    ("config", config::fuzz::file),
    ("entry", engine::fuzz::entries),
    ("export", engine::fuzz::export),
    ("reply", engine::fuzz::reply),
    ("request", grpc::fuzz::request),
    ("token", grpc::fuzz::token),
];

#[cfg(test)]
mod tests;
