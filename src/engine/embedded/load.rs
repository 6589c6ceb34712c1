//! Reads what is on a disk back into an engine.

use super::{
    Embedded,
    store::{OpenError, Store},
    tables::Kept,
};
use crate::{
    admission, lock, rate,
    record::{Recorded, Unreadable, split_key},
    sequence, stock,
    time::Mark,
};

/// Reads all entries; the clock's mark, and how many entries there were.
pub(super) fn load(
    engine: &mut Embedded,
    store: &Store,
) -> Result<(Option<Mark>, usize), OpenError> {
    let mut loader = Loader { engine, open: None, count: 0 };
    let mark = store.scan(|key, value| loader.entry(key, value))?;
    loader.finish();
    Ok((mark, loader.count))
}

/// Entries of a partition lie together: one is put together at a time.
struct Loader<'a> {
    engine: &'a mut Embedded,
    open: Option<(u8, Box<[u8]>, State)>,
    count: usize,
}

macro_rules! states {
    ($($name:ident($state:ty)),* $(,)?) => {
        /// A state of any kind.
        enum State {
            $($name(Box<$state>),)*
        }

        impl State {
            fn fresh(kind: u8) -> Option<State> {
                match kind {
                    $(<$state as Recorded>::KIND => Some(State::$name(Box::default())),)*
                    _ => None,
                }
            }

            fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
                match self {
                    $(State::$name(state) => state.restore(part, value),)*
                }
            }

            fn insert(self, engine: &mut Embedded, partition: Box<[u8]>) {
                match self {
                    $(State::$name(state) => insert(engine, partition, *state),)*
                }
            }
        }
    };
}

states! {
    Pool(admission::Pool),
    Meter(rate::Meter),
    Log(rate::Log),
    Bans(rate::BanIndex),
    Counter(sequence::Counter),
    Lock(lock::Lock),
    Sku(stock::Sku),
}

impl Loader<'_> {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        let key = split_key(key).ok_or_else(|| Unreadable("its key is cut short".to_owned()))?;
        let (kind, partition, part) = key;
        self.count += 1;
        let is_open =
            self.open.as_ref().is_some_and(|open| open.0 == kind && *open.1 == *partition);
        if !is_open {
            self.finish();
            let fresh = State::fresh(kind).ok_or_else(|| {
                Unreadable(format!("kind {kind} is unknown: a newer tollgate has written it"))
            })?;
            self.open = Some((kind, partition.into(), fresh));
        }
        match &mut self.open {
            Some((_, _, state)) => state.restore(part, value),
            None => Ok(()),
        }
    }

    fn finish(&mut self) {
        if let Some((_, partition, state)) = self.open.take() {
            state.insert(self.engine, partition);
        }
    }
}

fn insert<S: Kept>(engine: &mut Embedded, partition: Box<[u8]>, mut state: S) {
    state.restored();
    state.note_changes();
    let mut tables = engine.shard(S::tag(&partition));
    S::table(&mut tables).insert(partition, state);
}
