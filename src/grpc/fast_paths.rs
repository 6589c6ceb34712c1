//! The handlers of the RPCs on the fast path, which `build.rs` generates from the options in the
//! proto files.

use bytes::Bytes;
use tonic::Status;

use super::{
    codec, elements,
    envoy_pb::RateLimitService as _,
    pb::{
        admission_service_server::AdmissionService as _, lock_service_server::LockService as _,
        rate_service_server::RateService as _, sequence_service_server::SequenceService as _,
        stock_service_server::StockService as _,
    },
};

/// Implements [`tollgate_http::FastPath`] for a service, with its methods and their handlers.
macro_rules! fast_path {
    ($service:ty, { $($method:literal => $handler:ident),* $(,)? }) => {
        impl tollgate_http::FastPath for $service {
            const MESSAGE_BYTES_MAX: usize = <$service>::MESSAGE_BYTES_MAX;

            async fn answer(
                &self,
                method: usize,
                request: tonic::Request<Bytes>,
            ) -> Result<tonic::Response<Vec<u8>>, Status> {
                match method {
                    $($method => {
                        let handled = handle(request, |request| self.$handler(request))?;
                        handled.await.map(tollgate_http::frame)
                    })*
                    // Unreachable: the table of RPCs has only these numbers.
                    _ => Err(Status::unimplemented("")),
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/fast_paths.rs"));

/// Decodes the message of a request and passes it to its handler. Not async: the future of a call
/// would store the request twice.
fn handle<Q: elements::Request, F>(
    request: tonic::Request<Bytes>,
    handler: impl FnOnce(tonic::Request<Q>) -> F,
) -> Result<F, Status> {
    let (metadata, extensions, message) = request.into_parts();
    let message = codec::decode(message)?;
    Ok(handler(tonic::Request::from_parts(metadata, extensions, message)))
}
