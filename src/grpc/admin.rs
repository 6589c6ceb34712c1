//! `AdminService`: returns the status of this server, reloads its configuration, and accepts a loss
//! of the store's data.
//!
//! Its calls go through tonic, like health checks. They make no decisions, so they are answered
//! however long the queue is. Only AcceptStoreLoss needs the store.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tonic::{Code, Request, Response, Status, codec::CompressionEncoding};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use super::{
    convert,
    pb::{
        self,
        admin_service_server::{AdminService, AdminServiceServer},
    },
    status::{DOMAIN, from_error},
};
use tollgate_core::time::Timestamp;
use tollgate_http::MESSAGE_BYTES_MAX;
use tollgate_status::{
    RunningServer,
    reload::{Difference, InvalidConfig, ReloadError, Reloaded},
    status::{Readiness, Status as ServerStatus, StoreLoss},
};
use tollgate_telemetry::text::start;

/// The type of the violations in a PreconditionFailure.
const NEEDS_RESTART: &str = "NEEDS_RESTART";
/// Maximum number of violations in the details of an error, which are sent as a header.
const VIOLATIONS_MAX: usize = 16;
/// Maximum length of a message or violation, bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// The handlers of the admin service.
#[derive(Debug)]
pub struct AdminHandlers {
    server: Arc<RunningServer>,
}

impl AdminHandlers {
    /// Creates the service for tonic.
    pub(crate) fn server(server: Arc<RunningServer>) -> AdminServiceServer<AdminHandlers> {
        AdminServiceServer::new(AdminHandlers { server })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

#[tonic::async_trait]
impl AdminService for AdminHandlers {
    async fn get_status(
        &self,
        _: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        Ok(Response::new(status(self.server.status(), self.server.store_losses())))
    }

    async fn reload_config(
        &self,
        request: Request<pb::ReloadConfigRequest>,
    ) -> Result<Response<pb::ReloadConfigResponse>, Status> {
        let reload = self.server.reload().ok_or(ReloadError::NoFile).map_err(refused)?;
        let reloaded = reload.reload(request.get_ref().dry_run).await.map_err(refused)?;
        Ok(Response::new(response(reloaded)))
    }

    async fn accept_store_loss(
        &self,
        _: Request<pb::AcceptStoreLossRequest>,
    ) -> Result<Response<pb::AcceptStoreLossResponse>, Status> {
        let losses = self.server.accept_store_loss().await.map_err(from_error)?;
        let losses = losses.into_iter().map(loss).collect();
        Ok(Response::new(pb::AcceptStoreLossResponse { losses }))
    }
}

fn loss(loss: StoreLoss) -> pb::StoreLoss {
    pb::StoreLoss {
        node: loss.node.into(),
        state: Bytes::from_static(loss.state.name().as_bytes()),
        loss_time: Some(convert::timestamp(loss.time)),
    }
}

fn status(status: ServerStatus, losses: Vec<StoreLoss>) -> pb::GetStatusResponse {
    let time = |micros: u64| convert::timestamp(Timestamp(micros));
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let configuration = pb::ConfigurationStatus {
        hash: status.configuration.hash.into(),
        load_time: status.configuration.loaded_micros.map(time),
        last_error: status.configuration.last_error.unwrap_or_default().into(),
        error_time: status.configuration.failed_micros.map(time),
    };
    pb::GetStatusResponse {
        version: text(status.version),
        engine: text(status.engine),
        topology: text(status.topology),
        store: text(status.store),
        readiness: text(match status.readiness {
            Readiness::Ready => "ready",
            Readiness::StoreDown => "store_down",
            Readiness::StoreRefusing => "store_refusing",
            Readiness::Draining => "draining",
        }),
        uptime_seconds: status.uptime_seconds,
        configuration: Some(configuration),
        servers: status.servers.unwrap_or_default(),
        store_id: status.store_id.unwrap_or_default().into(),
        store_losses: losses.into_iter().map(loss).collect(),
    }
}

fn response(reloaded: Reloaded) -> pb::ReloadConfigResponse {
    let differences = reloaded.differences.into_iter().map(|Difference { key, old, new }| {
        pb::ConfigDifference { key: key.into(), old: old.into(), new: new.into() }
    });
    pb::ReloadConfigResponse { differences: differences.collect(), hash: reloaded.hash.into() }
}

/// Converts the error of a reload. Shortens the details and the message, because both are sent as
/// headers.
fn refused(error: ReloadError) -> Status {
    let message = error.to_string();
    let info = |reason: &str, metadata: HashMap<String, String>| {
        ErrorDetails::with_error_info(reason, DOMAIN, metadata)
    };
    let (code, details) = match error {
        ReloadError::NoFile => (Code::FailedPrecondition, info("CONFIG_NO_FILE", HashMap::new())),
        ReloadError::Failed => (Code::Internal, info("RELOAD_FAILED", HashMap::new())),
        ReloadError::NeedsRestart(differences) => {
            let mut details = info("CONFIG_NEEDS_RESTART", HashMap::new());
            let violations = differences.iter().take(VIOLATIONS_MAX).map(|difference| {
                let text = difference.to_string();
                let key = start(&difference.key, TEXT_BYTES_MAX);
                PreconditionViolation::new(NEEDS_RESTART, key, start(&text, TEXT_BYTES_MAX))
            });
            details.set_precondition_failure(violations.collect::<Vec<_>>());
            (Code::FailedPrecondition, details)
        }
        ReloadError::Invalid(InvalidConfig { message, file, line, key }) => {
            let mut metadata = HashMap::from([("file".to_owned(), file)]);
            if line > 0 {
                metadata.insert("line".to_owned(), line.to_string());
            }
            let mut details = info("CONFIG_INVALID", metadata);
            let key = start(&key, TEXT_BYTES_MAX);
            let violation = FieldViolation::new(key, start(&message, TEXT_BYTES_MAX));
            details.set_bad_request(vec![violation]);
            (Code::InvalidArgument, details)
        }
    };
    Status::with_error_details(code, start(&message, 2 * TEXT_BYTES_MAX), details)
}
