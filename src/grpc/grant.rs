//! Grants of calls that have waited, until their answers are sent.

use tollgate_http::OnSent;
use tonic::Response;

use tollgate_engine::Unreceived;

/// Returns the response of a call that may have waited. Its grant is revoked unless the message is
/// sent.
pub(super) fn attach<T>(message: T, grant: Option<Unreceived>) -> Response<T> {
    let response = Response::new(message);
    match grant {
        None => response,
        Some(grant) => OnSent::new(move || grant.receive()).attach(response),
    }
}
