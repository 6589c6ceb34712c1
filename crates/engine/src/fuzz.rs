//! Fuzz targets for stored data: entries of a data directory, exports, replies of Redis.

use super::{
    export::{Line, Reader, Writer},
    redis,
    registry::stored_states,
};
use tollgate_core::{
    Bin, Decision, Reply, State, admission, lock, rate,
    record::{Changes, Recorded},
    sequence, stock,
    time::Timestamp,
};

/// The first line of an export.
const FIRST: &[u8] =
    b"{\"kind\":\"archive\",\"version\":1,\"tollgate\":\"0\",\"source\":\"redis\",\"time\":1}\n";
/// The time at which restored states are swept.
const NOW: Timestamp = Timestamp(1 << 50);
/// Limits the work of one input.
const SWEEPS_MAX: usize = 100;

/// Restores the entries of one partition, sweeps the state and exports the entries. The input is the
/// kind, then for each entry its part and its value, each behind a byte with its length.
pub fn entries(input: &[u8]) {
    let Some((kind, mut rest)) = input.split_first() else { return };
    let mut entries = Vec::new();
    while let Some((part, more)) = prefixed(rest) {
        let Some((value, more)) = prefixed(more) else { break };
        entries.push((part, value));
        rest = more;
    }
    for (part, value) in &entries {
        if let Ok(Some(line)) = Line::from_entry(*kind, b"partition", part, value) {
            let _ = line.check();
            let _ = line.record(&mut Changes::default());
        }
    }
    restore(*kind, &entries);
}

/// Splits off bytes that are preceded by their length.
fn prefixed(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = input.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

macro_rules! restored {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        fn restore(kind: u8, entries: &[(&[u8], &[u8])]) {
            match kind {
                $(<$state as Recorded>::KIND => run::<$state>(entries),)*
                _ => {}
            }
        }
    };
}

stored_states!(restored);

fn run<S: Recorded>(entries: &[(&[u8], &[u8])]) {
    let mut state = S::default();
    for (part, value) in entries {
        if state.restore(part, value).is_err() {
            // Startup would fail here.
            return;
        }
    }
    state.restored();
    state.track_changes();
    let mut bin = Bin::new();
    for now in [Timestamp(0), NOW, Timestamp(u64::MAX >> 12)] {
        for _ in 0..SWEEPS_MAX {
            if State::sweep(&mut state, now, 10, &mut bin) == 0 {
                break;
            }
        }
        let _ = (state.has_ended(now), state.is_vacant(now));
    }
    drop(state.take_wake_ups());
    let mut changes = Changes::default();
    changes.set_partition::<S>(b"partition");
    state.drain(&mut changes);
    state.head(&mut Vec::new());
}

/// Reads an export and writes its lines again. Adds the first line if it is missing.
pub fn export(input: &[u8]) {
    let whole = if input.starts_with(b"{\"kind\":\"archive\"") {
        input.to_vec()
    } else {
        [FIRST, input].concat()
    };
    let Ok(mut reader) = Reader::open(&whole[..]) else { return };
    let Ok(mut writer) = Writer::begin(Vec::new(), "embedded", reader.time(), None) else { return };
    while let Ok(Some(line)) = reader.next_line() {
        let _ = line.has_lapsed(NOW.0);
        let _ = line.record(&mut Changes::default());
        let _ = writer.write(&line);
    }
    let _ = writer.end();
}

/// Parses bytes from Redis as the reply of every script.
pub fn reply(input: &[u8]) {
    let Some(replies) = redis::fuzz::replies(input) else { return };
    for reply in replies {
        parse_all(&reply);
    }
}

/// Parses a reply as the outcome of a decision.
fn parse<D: Decision>(reply: &Reply) {
    drop(D::parse(&mut reply.clone()));
}

macro_rules! parse_all {
    ($($decision:ty),* $(,)?) => {
        fn parse_all(reply: &Reply) {
            $(parse::<$decision>(reply);)*
        }
    };
}

parse_all! {
    admission::AdmitTask, admission::CancelTask, admission::CompleteTask, admission::ConfigurePool,
    admission::EnqueueTask, admission::EvictTask, admission::GetPool, admission::HeartbeatPool,
    admission::ListLeases, admission::ListTasks, admission::ReadEvents, admission::RenewTask,
    admission::RequeueTask, admission::RevokeTask, admission::SweepPool, lock::AcquireLock, lock::GetLock,
    lock::HeartbeatLock, lock::ReleaseLock, lock::RenewLock, lock::RevokeLock, rate::BanKey, rate::CheckRate,
    rate::GetBan, rate::GetKey, rate::ListBans, rate::IndexBan, rate::ReadRateEvents, rate::ResetRate,
    rate::UnbanKey, sequence::GetSequence, sequence::NextSequence, sequence::ReserveSequence,
    sequence::SetSequenceFloor,
    stock::AddStock, stock::CancelReservation, stock::ConfirmReservation, stock::GetStock,
    stock::ReserveStock, stock::SetStock,
    tollgate_core::record::Export<admission::Pool>,
    tollgate_core::record::Export<lock::Lock>,
    tollgate_core::record::Export<rate::Meter>,
    tollgate_core::record::Export<sequence::Counter>,
    tollgate_core::record::Export<stock::Sku>,
}
