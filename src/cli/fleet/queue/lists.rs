//! Compares the server's lists of tasks after a run with the ledger of the devices.

use std::collections::BTreeSet;

use super::{ledger::Ledger, producer::Names};
use crate::grpc::client::{CallError, Client, TaskListing};

/// The contents of the lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lists {
    /// Tasks that are still queued.
    pub(super) queued: u64,
    /// Dead tasks.
    pub(super) dead: u64,
    /// Tasks that are dead on the server's list or in the ledger, but not in both.
    pub(super) differ: u64,
}

/// Compares the lists with the ledger. `may_lack` means that answers were lost, so attempts may be
/// missing in the ledger.
pub(super) async fn compare(
    client: &Client,
    pool: &str,
    names: &Names,
    ledger: &Ledger,
    may_lack: bool,
) -> Result<Lists, CallError> {
    let queued = numbers(client, pool, TaskListing::Queued, names, ledger).await?;
    let listed = numbers(client, pool, TaskListing::Dead, names, ledger).await?;
    listed.iter().for_each(|number| ledger.is_dead(*number, may_lack));
    let dead: BTreeSet<usize> = ledger.dead().into_iter().collect();
    Ok(Lists {
        queued: queued.len() as u64,
        dead: listed.len() as u64,
        differ: listed.symmetric_difference(&dead).count() as u64,
    })
}

/// Returns the numbers of this run's tasks on a list.
async fn numbers(
    client: &Client,
    pool: &str,
    which: TaskListing,
    names: &Names,
    ledger: &Ledger,
) -> Result<BTreeSet<usize>, CallError> {
    let (mut numbers, mut token) = (BTreeSet::new(), String::new());
    let prefix = names.prefix();
    loop {
        let (tasks, next) = client.list_tasks(pool, which, &token).await?;
        let ours = tasks.iter().filter(|(device, _)| device.starts_with(&prefix));
        numbers.extend(ours.filter_map(|(_, task)| ledger.number(task)));
        if next.is_empty() {
            return Ok(numbers);
        }
        token = next;
    }
}
