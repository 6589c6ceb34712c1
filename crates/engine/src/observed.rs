//! Values of an engine for its operators.

use super::Engine;

impl Engine {
    /// The engine, `embedded` or `redis`; and where its state is: `memory` or `data_dir`, or the
    /// kind of Redis, `single`, `sentinel` or `cluster`.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Engine::Embedded(engine) if engine.journal().is_some() => ("embedded", "data_dir"),
            Engine::Embedded(_) => ("embedded", "memory"),
            Engine::Redis(engine) => ("redis", engine.topology()),
        }
    }

    /// `memory_max` of the embedded engine, in bytes.
    pub fn memory_max(&self) -> Option<u64> {
        match self {
            Engine::Embedded(engine) => engine.memory_max(),
            Engine::Redis(_) => None,
        }
    }

    /// The size of the data directory's file, in bytes, and the number of changes that wait for the
    /// disk; `None` without a data directory.
    pub fn data_usage(&self) -> Option<(u64, u64)> {
        match self {
            Engine::Embedded(engine) => engine.journal().map(|journal| journal.usage()),
            Engine::Redis(_) => None,
        }
    }
}
