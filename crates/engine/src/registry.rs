//! The registry of capabilities: the states that stores hold.
//!
//! The tables of a shard, their sweep, the load of a data directory, and the export and import of a
//! Redis derive from these lists. The lines of an export file are listed in `export/line.rs`.

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

/// Passes the verbs that callers ask for to the macro `$then`: their outcomes are counted.
macro_rules! counted_verbs {
    ($then:ident) => {
        $then! {
            tollgate_core::admission::AdmitTask, tollgate_core::admission::CancelTask,
            tollgate_core::admission::CompleteTask, tollgate_core::admission::ConfigurePool,
            tollgate_core::admission::EnqueueTask, tollgate_core::admission::EvictTask, tollgate_core::admission::GetPool,
            tollgate_core::admission::ListLeases, tollgate_core::admission::ListTasks, tollgate_core::admission::RenewTask,
            tollgate_core::admission::RequeueTask,
            tollgate_core::lock::AcquireLock, tollgate_core::lock::GetLock, tollgate_core::lock::ReleaseLock,
            tollgate_core::lock::RenewLock, tollgate_core::rate::BanKey, tollgate_core::rate::CheckRate,
            tollgate_core::rate::GetKey,
            tollgate_core::rate::ListBans, tollgate_core::rate::ResetRate, tollgate_core::rate::UnbanKey,
            tollgate_core::sequence::GetSequence, tollgate_core::sequence::NextSequence,
            tollgate_core::sequence::SetSequenceFloor, tollgate_core::stock::AddStock,
            tollgate_core::stock::CancelReservation, tollgate_core::stock::ConfirmReservation,
            tollgate_core::stock::GetStock, tollgate_core::stock::ReserveStock, tollgate_core::stock::SetStock,
        }
    };
}

pub(super) use {counted_verbs, exported_states, imported_states, stored_states};
