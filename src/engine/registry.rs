//! The registry of capabilities: the states that stores hold.
//!
//! The tables of a shard, their sweep, the load of a data directory, and the export and import of a
//! Redis derive from these lists. The lines of an export file are listed in `export/line.rs`.

/// Passes the stored states to the macro `$then`, as `table: state;`. `events … => table` says that
/// decisions on the state append events to a history under the same tag.
macro_rules! stored_states {
    ($then:ident) => {
        $then! {
            pools: crate::admission::Pool;
            meters: crate::rate::Meter, events crate::rate::RateEvent => rate_logs;
            rate_logs: crate::rate::Log;
            ban_indexes: crate::rate::BanIndex;
            sequences: crate::sequence::Counter;
            locks: crate::lock::Lock;
            skus: crate::stock::Sku;
        }
    };
}

/// Passes the exported states to the macro `$then`, as `name: state;`.
macro_rules! exported_states {
    ($then:ident) => {
        $then! {
            pools: crate::admission::Pool;
            meters: crate::rate::Meter;
            sequences: crate::sequence::Counter;
            locks: crate::lock::Lock;
            skus: crate::stock::Sku;
        }
    };
}

/// Passes the states that an import writes to the macro `$then`, as `name: state => decision, its
/// constructor;`.
macro_rules! imported_states {
    ($then:ident) => {
        $then! {
            pools: crate::admission::Pool => Import<crate::admission::Pool>, Import::new;
            meters: crate::rate::Meter => Import<crate::rate::Meter>, Import::new;
            ban_indexes: crate::rate::BanIndex => crate::rate::NoteBan, crate::rate::NoteBan::import;
            sequences: crate::sequence::Counter => Import<crate::sequence::Counter>, Import::new;
            locks: crate::lock::Lock => Import<crate::lock::Lock>, Import::new;
            skus: crate::stock::Sku => Import<crate::stock::Sku>, Import::new;
        }
    };
}

pub(super) use {exported_states, imported_states, stored_states};
