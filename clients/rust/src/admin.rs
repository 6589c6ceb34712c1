//! The status of a server, the reload of its configuration, and the loss of its store's data.

use std::time::Duration;

use crate::{Connection, Error, pb};

/// Deadline of a reload: the server may fetch a key set first, for 10 s.
const RELOAD: Duration = Duration::from_secs(30);

impl Connection {
    /// Returns the status of the server.
    pub async fn status(&self) -> Result<pb::GetStatusResponse, Error> {
        self.call(pb::GetStatusRequest {}).await
    }

    /// Reloads the configuration of the server. With `dry_run` it only lists the differences.
    ///
    /// Fails with INVALID_ARGUMENT if a file is invalid, and with FAILED_PRECONDITION if a key
    /// needs a restart or the server has no file. In these cases nothing changes.
    pub async fn reload_config(&self, dry_run: bool) -> Result<pb::ReloadConfigResponse, Error> {
        self.call_within(RELOAD, pb::ReloadConfigRequest { dry_run }).await
    }

    /// Accepts that Redis has lost its data. Returns the losses that this call accepted.
    pub async fn accept_store_loss(&self) -> Result<pb::AcceptStoreLossResponse, Error> {
        self.call(pb::AcceptStoreLossRequest {}).await
    }
}
