//! The fallback for pools: answers while the store is unreachable.
//!
//! Leases of the fallback are known to this server only. Their tokens are times of its clock. So a
//! lease that the store grants later has a higher token, as long as the clocks agree.

use super::{
    Admission, AdmitDecision, AdmitTask, CompleteTask, CompleteVerdict, Completion, PoolUsage,
    RenewTask, RenewVerdict, Settings,
};
use crate::{
    fallback::{Degradable, OnStoreFailure},
    time::Millis,
    waiters::Proceed,
};

/// `retry_after` of a refusal by the fallback.
const RETRY: Millis = Millis(1000);

impl Settings {
    /// The settings for one of `replicas` shares.
    fn shared(self, replicas: u32) -> Settings {
        // Rounded down, to 0 if necessary: all shares together are at most the capacity.
        Settings { capacity: self.capacity / replicas.max(1), ..self }
    }
}

impl Degradable for AdmitTask {
    /// Only the store knows the queued tasks of a device.
    fn on_store_failure(&self) -> OnStoreFailure {
        match self.task {
            Some(_) => self.settings.on_store_failure,
            None => OnStoreFailure::Fail,
        }
    }

    /// A full pool. Its use is unknown.
    fn refused(&self) -> Option<Admission> {
        let decision = AdmitDecision::full(RETRY, Proceed::Refused);
        let capacity = self.settings.capacity;
        Some(Admission { decision, usage: PoolUsage { capacity, in_use: capacity } })
    }

    fn has_no_share(&self, replicas: u32) -> bool {
        self.settings.capacity > 0 && self.settings.shared(replicas).capacity == 0
    }

    /// No call waits for a share.
    fn shared(&self, replicas: u32) -> AdmitTask {
        AdmitTask { settings: self.settings.shared(replicas), waiting: None, ..self.clone() }
    }
}

impl Degradable for CompleteTask {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.settings.on_store_failure
    }

    /// `None`: a result cannot be refused. So with `deny` the call fails.
    fn refused(&self) -> Option<Completion> {
        None
    }

    fn shared(&self, replicas: u32) -> CompleteTask {
        CompleteTask { settings: self.settings.shared(replicas), ..self.clone() }
    }

    /// A token of another lease means that the store granted the lease.
    fn is_unknown(completion: &Completion) -> bool {
        matches!(completion.verdict, CompleteVerdict::Unknown | CompleteVerdict::StaleToken)
    }
}

impl Degradable for RenewTask {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.settings.on_store_failure
    }

    /// As for [`CompleteTask`].
    fn refused(&self) -> Option<RenewVerdict> {
        None
    }

    fn shared(&self, replicas: u32) -> RenewTask {
        RenewTask { settings: self.settings.shared(replicas), ..self.clone() }
    }

    /// As for [`CompleteTask`].
    fn is_unknown(verdict: &RenewVerdict) -> bool {
        matches!(verdict, RenewVerdict::Unknown | RenewVerdict::StaleToken)
    }
}
