//! `tollgate lock list`.

use tollgate_client::{Error, pb::Lock};

use super::options::LockOptions;
use crate::{
    client::{self, ClientError, connect, failed},
    flags::PrefixFlags,
    listing::{PrintedList, warn_unreadable},
    pool::until,
    table::Column,
};

const COLUMNS: [Column; 5] = [
    Column::Text("LOCK"),
    Column::Text("OWNER"),
    Column::Number("TOKEN"),
    Column::Number("ENDS IN"),
    Column::Number("WAITING"),
];

/// Lists and prints the held locks.
pub async fn list(
    options: &LockOptions,
    PrefixFlags { prefix }: &PrefixFlags,
) -> Result<(), ClientError> {
    let LockOptions { output, server, access, .. } = options;
    let what = "list the locks";
    let connection = connect(server, access, what).await?;
    let read = async |token: &str| {
        let page = connection.list_locks(prefix, token).await?;
        warn_unreadable("lock", &page.unreadable);
        Ok((page.locks, page.next_page_token))
    };
    let fail = |error: &Error| failed(what, server, error, advice(error.code));
    PrintedList { message: "Lock", columns: COLUMNS, row }.print(*output, read, fail).await
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "PERMISSION_DENIED" => "use the token of a caller that may read locks",
        "UNIMPLEMENTED" => "this server does not support listing locks: upgrade it",
        _ => client::advice(code),
    }
}

fn row(lock: &Lock) -> [String; 5] {
    let lease = lock.lease.clone().unwrap_or_default();
    [
        lock.name.clone(),
        lease.owner,
        lease.fencing_token.to_string(),
        until(lease.expire_time),
        lock.waiters.to_string(),
    ]
}
