//! What pools answer while the store cannot be asked.

use super::{
    Admission, AdmitDecision, AdmitTask, CompleteTask, CompleteVerdict, Completion, RenewTask,
    RenewVerdict, Settings, Usage,
};
use crate::{
    degradation::{Degradable, OnStoreFailure},
    time::Millis,
    waiting::Turn,
};

const RETRY: Millis = Millis(1000);

impl Settings {
    /// Those of one of so many shares.
    fn shared(self, replicas: u32) -> Settings {
        // Rounded down, to none where need be: all shares together are no more than the whole.
        Settings { capacity: self.capacity / replicas.max(1), ..self }
    }
}

impl Degradable for AdmitTask {
    /// What a device has queued only the store knows.
    fn on_store_failure(&self) -> OnStoreFailure {
        match self.task {
            Some(_) => self.settings.on_store_failure,
            None => OnStoreFailure::Fail,
        }
    }

    fn refused(&self) -> Option<Admission> {
        let decision = AdmitDecision::Full { retry_after: RETRY, turn: Turn::Refused, room_in: 0 };
        let capacity = self.settings.capacity;
        Some(Admission { decision, usage: Usage { capacity, in_use: capacity } })
    }

    fn has_no_share(&self, replicas: u32) -> bool {
        self.settings.capacity > 0 && self.settings.shared(replicas).capacity == 0
    }

    /// Nobody waits for a share.
    fn shared(&self, replicas: u32) -> AdmitTask {
        AdmitTask { settings: self.settings.shared(replicas), place: None, ..self.clone() }
    }
}

impl Degradable for CompleteTask {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.settings.on_store_failure
    }

    fn refused(&self) -> Option<Completion> {
        None
    }

    fn shared(&self, replicas: u32) -> CompleteTask {
        CompleteTask { settings: self.settings.shared(replicas), ..self.clone() }
    }

    /// A token of another lease is one of a lease that was granted elsewhere.
    fn is_unknown(completion: &Completion) -> bool {
        matches!(completion.verdict, CompleteVerdict::Unknown | CompleteVerdict::StaleToken)
    }
}

impl Degradable for RenewTask {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.settings.on_store_failure
    }

    fn refused(&self) -> Option<RenewVerdict> {
        None
    }

    fn shared(&self, replicas: u32) -> RenewTask {
        RenewTask { settings: self.settings.shared(replicas), ..self.clone() }
    }

    /// As of a result.
    fn is_unknown(verdict: &RenewVerdict) -> bool {
        matches!(verdict, RenewVerdict::Unknown | RenewVerdict::StaleToken)
    }
}
