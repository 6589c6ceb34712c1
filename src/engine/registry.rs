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

/// Passes the verbs that callers ask for to the macro `$then`: their outcomes are counted.
macro_rules! counted_verbs {
    ($then:ident) => {
        $then! {
            crate::admission::AdmitTask, crate::admission::CancelTask,
            crate::admission::CompleteTask, crate::admission::ConfigurePool,
            crate::admission::EnqueueTask, crate::admission::EvictTask, crate::admission::GetPool,
            crate::admission::ListLeases, crate::admission::ListTasks, crate::admission::RenewTask,
            crate::admission::RequeueTask,
            crate::lock::AcquireLock, crate::lock::GetLock, crate::lock::ReleaseLock,
            crate::lock::RenewLock, crate::rate::BanKey, crate::rate::CheckRate,
            crate::rate::GetKey,
            crate::rate::ListBans, crate::rate::ResetRate, crate::rate::UnbanKey,
            crate::sequence::GetSequence, crate::sequence::NextSequence,
            crate::sequence::SetSequenceFloor, crate::stock::AddStock,
            crate::stock::CancelReservation, crate::stock::ConfirmReservation,
            crate::stock::GetStock, crate::stock::ReserveStock, crate::stock::SetStock,
        }
    };
}

pub(super) use {counted_verbs, exported_states, imported_states, stored_states};
