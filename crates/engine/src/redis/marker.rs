//! The marker of the store, by which servers recognise that Redis has lost its data.
//!
//! Each node has a marker key: `PREFIX:store`, in a Cluster with a hash tag for the first slot of
//! the node. Its text is "id state time" (`lua/lib/store.lua`). The probe writes it at the first
//! start of a server on an empty Redis. Each server remembers the id. If the marker is gone or has
//! another id, the data that Redis had is lost. The probe then writes a marker that records the
//! loss, so that servers that start later also recognise it.
//!
//! A script that would create a record from scratch first compares the marker, in the same step. It
//! fails if the marker is not the one that the server knows; the pipeline then probes and sends the
//! decision again. No value is therefore repeated between a loss and the next probe, and decisions
//! on existing records cost nothing extra.
//!
//! A marker key in a slot that this server has not seen before says nothing about a loss: the node
//! may be new, or its first slot may have moved. Its marker continues the earlier one of the node.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;

use tollgate_core::time::Timestamp;

/// What servers do after a loss of the store's data. The names are the same as in the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreLoss {
    /// Sequences that the store does not know fail until an operator accepts the loss, and pools
    /// grant nothing.
    #[default]
    Refuse,
    /// All calls are answered as on a new store.
    Continue,
}

/// A loss of the data of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLoss {
    /// The address of the node.
    pub node: String,
    /// What happens to calls.
    pub state: LossState,
    /// The time at which a server recognised it, on the clock of the node.
    pub time: Timestamp,
}

impl StoreLoss {
    /// Whether no operator has accepted it.
    pub fn is_open(&self) -> bool {
        self.state != LossState::Accepted
    }
}

/// What happens to calls after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossState {
    /// Sequences that the store does not know fail.
    Refusing,
    /// The configuration says that no call is refused because of it, and no operator has accepted
    /// it.
    Continued,
    /// An operator has accepted it.
    Accepted,
}

impl LossState {
    /// Returns the name in GetStatus.
    pub const fn name(self) -> &'static str {
        match self {
            LossState::Refusing => "refusing",
            LossState::Continued => "continued",
            LossState::Accepted => "accepted",
        }
    }
}

/// How an operator has settled the marker of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Settlement<'a> {
    /// Nothing.
    None,
    /// The loss is accepted.
    Accepted,
    /// An import has restored the data; contains the new marker.
    Imported(&'a str),
}

/// The marker of a node, as it was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) key: String,
    pub(super) text: String,
}

impl Marker {
    /// Returns the id of the store; empty if the text is malformed.
    pub(super) fn id(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Returns the loss that the marker records.
    pub(super) fn loss(&self) -> Option<(LossState, Timestamp)> {
        let mut parts = self.text.split(' ').skip(1);
        let state = match parts.next()? {
            "lost" => LossState::Refusing,
            "continued" => LossState::Continued,
            "accepted" => LossState::Accepted,
            _ => return None,
        };
        Some((state, Timestamp(parts.next()?.parse().ok()?)))
    }
}

/// Whether a text can be the id of a store.
pub fn is_store_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the text of the marker of a store that has lost nothing.
pub(super) fn whole(id: &str) -> String {
    format!("{id} whole 0")
}

/// The markers that a server has seen.
#[derive(Debug)]
pub(super) struct Markers {
    on_loss: OnStoreLoss,
    /// The id of a new store.
    fresh: String,
    /// The ids by marker key.
    known: Mutex<HashMap<String, String>>,
}

impl Markers {
    /// Creates the state of a server that has seen no marker. It may know the id of the marker at
    /// `key` from its configuration.
    pub(super) fn new(on_loss: OnStoreLoss, key: &str, id: Option<&str>) -> Markers {
        let random = || RandomState::new().hash_one(0);
        let fresh = format!("{:016x}{:016x}", random(), random());
        let known = id.map(|id| (key.to_owned(), id.to_owned()));
        Markers { on_loss, fresh, known: Mutex::new(known.into_iter().collect()) }
    }

    /// Returns the id that this key had; empty if it was never seen.
    pub(super) fn known(&self, key: &str) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).cloned().unwrap_or_default()
    }

    /// Remembers a marker.
    pub(super) fn record(&self, marker: &Marker) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(marker.key.clone(), marker.id().to_owned());
    }

    /// Returns the marker of a new store.
    pub(super) fn first(&self) -> String {
        whole(&self.fresh)
    }

    /// Returns the state after a loss, as the probe writes it.
    pub(super) fn loss_state(&self) -> &'static str {
        match self.on_loss {
            OnStoreLoss::Refuse => "lost",
            OnStoreLoss::Continue => "continued",
        }
    }
}
