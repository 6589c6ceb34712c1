//! Locks: the list of held locks, filtered by prefix, and the page of one lock, which can be
//! released.

use askama::Template;
use tollgate_client::pb::{
    GetLockRequest, ListLocksRequest, Lock, LockLease, ReleaseLockOutcome, ReleaseLockRequest,
    lock_service_client::LockServiceClient,
};

use super::names::{self, NamesFilter, PAGE};
use crate::{
    fields::FormFields,
    format::{Ago, Left, of_wire},
    page::{ConsolePage, Problem},
    paging::Paging,
    visit::{Visit, encoded},
};
use tollgate_core::time::Timestamp;

#[derive(Template)]
#[template(path = "locks_list.html")]
struct LocksTemplate {
    rows: Vec<LockRow>,
    unreadable: Vec<String>,
    paging: Paging,
}

struct LockRow {
    name: String,
    link: String,
    waiters: u32,
    lease: LockLease,
    age: Option<Ago>,
    left: Option<Left>,
}

#[derive(Template)]
#[template(path = "lock_holder.html")]
struct HolderTemplate {
    /// `None` for a free lock.
    row: Option<LockRow>,
    waiters: u32,
    may_release: bool,
}

impl LockRow {
    fn new(lock: Lock, now: Timestamp) -> LockRow {
        let lease = lock.lease.unwrap_or_default();
        LockRow {
            link: encoded(&lock.name),
            name: lock.name,
            waiters: lock.waiters,
            age: of_wire(lease.grant_time.as_ref()).map(|time| Ago::new(time, now)),
            left: of_wire(lease.expire_time.as_ref()).map(|time| Left::new(time, now)),
            lease,
        }
    }
}

/// Loads the list.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let page = ConsolePage::new("Locks").fixed("filter", &NamesFilter::new(visit, "/lock"))?;
    let request = ListLocksRequest {
        prefix: visit.query().get("prefix").to_owned(),
        page_size: Some(PAGE),
        page_token: visit.query().get("page").to_owned(),
    };
    let listed = match visit.client(LockServiceClient::new).list_locks(request).await {
        Ok(listed) => listed.into_inner(),
        Err(status) => return page.lacking_or(status),
    };
    let now = visit.now();
    let list = LocksTemplate {
        rows: listed.locks.into_iter().map(|lock| LockRow::new(lock, now)).collect(),
        unreadable: listed.unreadable,
        paging: names::paging(visit, &listed.next_page_token),
    };
    page.live("locks", &list)
}

/// Loads the page of one lock.
pub(super) async fn load_one(visit: &Visit) -> Result<ConsolePage, Problem> {
    let name = visit.name().to_owned();
    let request = GetLockRequest { name: name.clone() };
    let state = visit.client(LockServiceClient::new).get_lock(request).await?.into_inner();
    let waiters = state.waiters;
    let lock =
        state.lease.filter(|_| state.held).map(|lease| Lock { name, lease: Some(lease), waiters });
    let holder = HolderTemplate {
        row: lock.map(|lock| LockRow::new(lock, visit.now())),
        waiters,
        may_release: visit.may("LockService/ReleaseLock"),
    };
    ConsolePage::new(visit.name()).live("holder", &holder)
}

/// Runs an action: takes the lock away from the holder that the page showed.
pub(super) async fn act(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    if form.get("action") != "release" {
        return Err(Problem::Invalid("no such action".to_owned()));
    }
    let owner = form.get("owner").to_owned();
    let request = ReleaseLockRequest {
        name: visit.name().to_owned(),
        owner: owner.clone(),
        fencing_token: Some(form.number("token")?),
    };
    let answer = visit.client(LockServiceClient::new).release_lock(request).await?.into_inner();
    match answer.outcome() {
        ReleaseLockOutcome::Released => Ok(format!("Released the lock that {owner} held.")),
        ReleaseLockOutcome::NotHeld | ReleaseLockOutcome::Unspecified => Err(Problem::Invalid(
            format!("{owner} no longer holds the lock. Nothing was released."),
        )),
    }
}
