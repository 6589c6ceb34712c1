//! Which bans this server has noted for listings.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{rate::MeterName, time::Timestamp};

/// Keys remembered; past it all are forgotten and noted anew.
const NOTED_MAX: usize = 65_536;

/// Banned keys and the end of the ban that was noted of each.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<HashMap<Box<[u8]>, Timestamp>>);

impl Noted {
    /// Whether a ban, or that there is none, has to be noted.
    pub(super) fn is_due(&self, name: &MeterName, until: Option<Timestamp>) -> bool {
        until.is_none() || self.lock().get(name.as_bytes()).copied() != until
    }

    pub(super) fn add(&self, name: &MeterName, until: Option<Timestamp>) {
        let mut noted = self.lock();
        let Some(until) = until else {
            noted.remove(name.as_bytes());
            return;
        };
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(name.as_bytes().into(), until);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
