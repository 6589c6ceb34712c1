//! The registry of capabilities: the states that stores contain.
//!
//! The tables of a shard, their sweep, the loading of a data directory, and the export and import
//! of a Redis are derived from these lists. The lines of an export file are listed in
//! `export/line.rs`.

/// Passes the stored states to the macro `$then`, as `table: state;`. `events … => table` says that
/// decisions on the state append events to a history under the same tag.
macro_rules! stored_states {
    ($then:ident) => {
        $then! {
            pools: tollgate_core::admission::Pool;
            meters: tollgate_core::rate::Meter, events tollgate_core::rate::RateEvent => rate_logs;
            rate_logs: tollgate_core::rate::Log;
            ban_indexes: tollgate_core::rate::BanIndex;
            sequences: tollgate_core::sequence::Counter;
            locks: tollgate_core::lock::Lock;
            skus: tollgate_core::stock::Sku;
        }
    };
}

/// Passes the exported states to the macro `$then`, as `name: state;`.
macro_rules! exported_states {
    ($then:ident) => {
        $then! {
            pools: tollgate_core::admission::Pool;
            meters: tollgate_core::rate::Meter;
            sequences: tollgate_core::sequence::Counter;
            locks: tollgate_core::lock::Lock;
            skus: tollgate_core::stock::Sku;
        }
    };
}

/// Passes the states that an import writes to the macro `$then`, as `name: state => decision, its
/// constructor;`.
macro_rules! imported_states {
    ($then:ident) => {
        $then! {
            pools: tollgate_core::admission::Pool => Import<tollgate_core::admission::Pool>, Import::new;
            meters: tollgate_core::rate::Meter => Import<tollgate_core::rate::Meter>, Import::new;
            ban_indexes: tollgate_core::rate::BanIndex => tollgate_core::rate::IndexBan, tollgate_core::rate::IndexBan::import;
            sequences: tollgate_core::sequence::Counter => Import<tollgate_core::sequence::Counter>, Import::new;
            locks: tollgate_core::lock::Lock => Import<tollgate_core::lock::Lock>, Import::new;
            skus: tollgate_core::stock::Sku => Import<tollgate_core::stock::Sku>, Import::new;
        }
    };
}

pub(super) use {exported_states, imported_states, stored_states};
